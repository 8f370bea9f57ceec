"""What a project's dependencies say about it: tags by the names of packages. Pure."""

from __future__ import annotations

from collections.abc import Iterable

_TAGS = {
    # JavaScript and TypeScript
    "@anthropic-ai/sdk": "llm", "@angular/core": "angular frontend", "@modelcontextprotocol/sdk": "mcp",
    "@nestjs/core": "nestjs backend", "@playwright/test": "playwright testing", "@prisma/client": "prisma database",
    "@sveltejs/kit": "svelte frontend", "@testing-library/react": "react testing", "astro": "astro frontend",
    "aws-sdk": "aws", "cypress": "cypress testing", "electron": "electron desktop", "eslint": "eslint linting",
    "expo": "expo react-native mobile", "express": "express backend", "fastify": "fastify backend",
    "graphql": "graphql api", "hono": "hono backend", "ioredis": "redis cache", "jest": "jest testing",
    "koa": "koa backend", "mocha": "mocha testing", "mongoose": "mongodb database", "mysql2": "mysql database",
    "next": "next nextjs react frontend", "nuxt": "nuxt vue frontend", "openai": "openai llm",
    "pg": "postgresql database", "playwright": "playwright testing", "preact": "preact frontend",
    "prettier": "formatting", "prisma": "prisma database", "puppeteer": "puppeteer browser", "react": "react frontend",
    "react-dom": "react frontend", "react-native": "react-native mobile", "redis": "redis cache",
    "redux": "redux state frontend", "rollup": "bundling", "sequelize": "sequelize database",
    "socket.io": "websockets", "solid-js": "solid frontend", "storybook": "storybook frontend",
    "svelte": "svelte frontend", "tailwindcss": "tailwind css frontend", "three": "webgl graphics",
    "typeorm": "typeorm database", "typescript": "typescript", "vite": "vite bundling", "vitest": "vitest testing",
    "vue": "vue frontend", "webpack": "webpack bundling", "zod": "validation",
    # Python
    "aiohttp": "async http", "airflow": "airflow pipelines", "alembic": "alembic migrations database",
    "anthropic": "llm", "apache-airflow": "airflow pipelines", "asyncpg": "postgresql database async",
    "boto3": "aws", "celery": "celery jobs", "click": "cli", "django": "django backend",
    "djangorestframework": "django backend api", "fastapi": "fastapi backend api", "flask": "flask backend",
    "httpx": "http", "hypothesis": "testing", "jax": "jax machine-learning", "jupyter": "notebook",
    "keras": "keras machine-learning", "langchain": "langchain llm", "matplotlib": "plotting", "mcp": "mcp",
    "mypy": "typing", "numpy": "numpy", "pandas": "pandas data", "pgvector": "pgvector postgresql",
    "polars": "polars data", "psycopg": "postgresql database", "psycopg2": "postgresql database",
    "psycopg2-binary": "postgresql database", "pydantic": "pydantic validation", "pymongo": "mongodb database",
    "pyspark": "spark data", "pytest": "pytest testing", "requests": "http", "ruff": "linting",
    "scikit-learn": "scikit-learn machine-learning", "scipy": "scipy", "scrapy": "scraping",
    "sqlalchemy": "sqlalchemy database", "starlette": "starlette backend", "streamlit": "streamlit frontend",
    "tensorflow": "tensorflow machine-learning", "torch": "pytorch machine-learning",
    "tornado": "tornado backend", "transformers": "transformers machine-learning", "typer": "typer cli",
    "uvicorn": "backend",
    # Rust
    "actix-web": "actix backend", "anyhow": "error-handling", "axum": "axum backend", "bevy": "bevy games",
    "clap": "cli", "diesel": "diesel database", "leptos": "leptos frontend", "reqwest": "http",
    "rocket": "rocket backend", "serde": "serde serialization", "sqlx": "sqlx database", "tauri": "tauri desktop",
    "thiserror": "error-handling", "tokio": "tokio async", "tonic": "grpc", "wasm-bindgen": "wasm",
    # Go, by the last part of the module that is no version
    "chi": "chi backend", "cobra": "cli", "echo": "echo backend", "fiber": "fiber backend", "gin": "gin backend",
    "gorm": "gorm database", "grpc": "grpc", "mux": "backend", "pgx": "postgresql database", "testify": "testing",
    # Ruby
    "rails": "rails backend", "rspec": "rspec testing", "rspec-rails": "rspec rails testing", "rubocop": "linting",
    "sidekiq": "sidekiq jobs", "sinatra": "sinatra backend",
    # Java and Kotlin, by the name of the artifact
    "hibernate-core": "hibernate database", "jackson-databind": "serialization", "junit": "junit testing",
    "junit-jupiter": "junit testing", "kafka-clients": "kafka messaging", "mockito-core": "mockito testing",
    "spring-boot-starter": "spring backend", "spring-boot-starter-data-jpa": "spring database",
    "spring-boot-starter-web": "spring backend", "spring-core": "spring",
    # PHP
    "laravel/framework": "laravel backend", "phpunit/phpunit": "phpunit testing",
    "symfony/framework-bundle": "symfony backend",
}  # fmt: skip


class PackageName(str):
    """A tag that is nothing but a package's name."""

    __slots__ = ()


def tags_of_dependencies(names: Iterable[str]) -> list[str]:
    """The tags of the packages, and the packages' own names after them (``PackageName``), each once."""
    own = list(dict.fromkeys(name.strip().casefold() for name in names if name.strip()))
    said = [tag for name in own for tag in _TAGS.get(name, "").split()]
    return list(dict.fromkeys([*said, *(PackageName(_plain(name)) for name in own)]))


def _plain(name: str) -> str:
    """The name without its scope: ``@scope/name``, ``vendor/name``."""
    return name.rpartition("/")[2]
