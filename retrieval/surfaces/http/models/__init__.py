"""Requests and answers as OpenAPI describes them: a module for each resource."""
