#!/usr/bin/env python3
"""Take the README's screenshots of the console, light and dark, from a service with the demo's tickets.

usage: scripts/console_pictures.py [ADDRESS]    after `make demo` and, in another terminal, `make serve`
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
PAGE = "/console/search?collection=demo&q=connection+timeout&f.priority=Major&w.lexical=1.3"
WIDTH, HEIGHT = 1280, 860


def main(address: str) -> int:
    """Take both screenshots."""
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            page.goto(address + PAGE, wait_until="networkidle")
            page.screenshot(path=PICTURES / f"console-{scheme}.png")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"))
