# SPDX-License-Identifier: LGPL-2.1-or-later
"""Cockpit and the people who use its page of reclaimd, in a browser."""

import base64
import glob
import html
import json
import os
import unicodedata

from browser import Tab
from system import command

ADDRESS = "http://localhost:9090"
PASSWORD = "correct horse"
PAGE = "/usr/share/cockpit/reclaimd"
# It keeps the session, and does nothing; its title says whether the person may act as an administrator.
STILL = "/usr/share/cockpit/still"
STILL_FILES = {"manifest.json": '{"name": "still"}', "index.html": """<!DOCTYPE html>
<script src="../base1/cockpit.js"></script><script src="still.js"></script>
""", "still.js": """const permission = cockpit.permission({ admin: true });
permission.addEventListener("changed", () => document.title = permission.allowed);
"""}
# What one can do something with, or hears where it is.
NAMED = {"button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "switch", "tab", "menuitem",
         "slider", "spinbutton", "progressbar", "meter", "image", "dialog", "alertdialog", "tabpanel", "Date", "DateTime"}


def start():
    os.makedirs("/etc/cockpit", exist_ok=True)
    with open("/etc/cockpit/cockpit.conf", "w", encoding="utf-8") as f:
        f.write("[WebService]\nAllowUnencrypted=true\n")
    os.makedirs(STILL)
    for name, content in STILL_FILES.items():
        with open(f"{STILL}/{name}", "w", encoding="utf-8") as f:
            f.write(content)
    # Pictures show it.
    command("hostnamectl", "hostname", "server")
    command("systemctl", "start", "cockpit.socket")


def add_user(name, administrator):
    command("useradd", "--create-home", "--shell=/bin/bash", *(["--groups=sudo"] if administrator else []), name)
    command("chpasswd", input=f"{name}:{PASSWORD}\n")


class Person:
    """Someone who has logged in, with a browser of his own. Who may act as an administrator does."""

    def __init__(self, browser, user, administrator):
        self.browser = browser
        self.user = user
        self.context = browser.person()
        tab = self.tab()
        # The first page of the shell is another one's, and heavy.
        tab.go(f"{ADDRESS}/reclaimd")
        tab.until("document.querySelector('#login-button')?.offsetParent")
        tab.evaluate(f"localStorage['superuser:{user}'] = '{'any' if administrator else 'none'}'")
        for field, text in (("user", user), ("password", PASSWORD)):
            tab.evaluate(f"document.querySelector('#login-{field}-input').focus()")
            tab.write(text)
        tab.press("document.querySelector('#login-button')")
        tab.until("document.querySelector('iframe[name=\"cockpit1:localhost/reclaimd\"]')?.contentDocument.querySelector('main')")
        self.administrator = administrator
        self.shell = tab
        self.rest()

    def rest(self):
        self.shell.go(f"{ADDRESS}/cockpit/@localhost/still/index.html")
        self.shell.until(f"document.title == '{str(self.administrator).lower()}'")

    def tab(self):
        return Tab(self.browser, self.context)

    def open(self, part=""):
        """The page without the shell around it, once it shows something."""
        tab = self.tab()
        self.visit(tab, part)
        return tab

    @staticmethod
    def visit(tab, part):
        """Anew, also where only the part differs, which alone would load nothing."""
        tab.go("about:blank")
        tab.until("location.href == 'about:blank'")
        tab.go(f"{ADDRESS}/cockpit/@localhost/reclaimd/index.html#/{part}")
        tab.until("document.querySelector('main')?.ariaBusy == 'false'")


def layout_faults(tab):
    return [fault for check in ("look.overlaps()", "look.widths()", "look.contrasts(4.5)", "look.controlCharacters()")
            for fault in tab.evaluate(check)]


def accessibility_faults(tab):
    """Of names, landmarks, headings and tables."""
    nodes = tab.tree()
    roles = [n["role"] for n in nodes]
    faults = [f"a {n['role']} has no name" for n in nodes if n["role"] in NAMED and not n["name"].strip()]
    faults += [f"{n['role']}: {n['name']!r} has a control character" for n in nodes
               if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in n["name"])]
    if roles.count("main") != 1:
        faults.append(f"main is there {roles.count('main')} times")
    level = 0
    for n in nodes:
        if n["role"] == "heading":
            if n["level"] > level + 1:
                faults.append(f"heading {n['name']!r} of level {n['level']} follows level {level}")
            level = n["level"]
    if roles.count("table") and "columnheader" not in roles:
        faults.append("a table has no headings")
    if not tab.evaluate("document.title && document.documentElement.lang"):
        faults.append("the page has no title, or no language")
    return faults


def keyboard_faults(tab):
    """The Tab key leads to all that can be used, in order, and one sees where one is."""
    expected = tab.evaluate("look.stops()")
    tab.evaluate("document.activeElement.blur()")
    reached, faults = [], []
    # The browser itself stops at what can be scrolled, at the end, and at each part of a date.
    for _ in range(2 * len(expected) + 20):
        tab.key("Tab")
        stop = tab.evaluate("look.stop()")
        if stop["at"] in reached[:-1]:
            break
        if stop["at"] >= 0 and reached[-1:] != [stop["at"]]:
            reached.append(stop["at"])
            if not stop["shown"]:
                faults.append(f"one does not see that {stop['who']} has the focus")
    faults += [f"the Tab key does not lead to {expected[n]}" for n in range(len(expected)) if n not in reached]
    # It goes on from where it was before.
    first = reached.index(min(reached)) if reached else 0
    if reached[first:] + reached[:first] != sorted(reached):
        faults.append(f"the Tab key leads about in another order: {[expected[n] for n in reached]}")
    tab.evaluate("document.activeElement.blur()")
    return faults


def sheet(tab, name, pictures, width):
    """One picture of many, each with its caption and so wide."""
    figures = "".join(f"<figure><figcaption>{html.escape(caption)}</figcaption>"
                      f"<img src='data:image/png;base64,{base64.b64encode(data).decode()}'></figure>" for caption, data in pictures)
    tab.go("about:blank")
    tab.size(1324, 800)
    tab.show("<!DOCTYPE html><style>main { display: flex; flex-wrap: wrap; gap: 12px; align-items: start } "
             "body { margin: 8px; font: 14px sans-serif } img { width: 100%; display: block; outline: 1px solid #888 } "
             f"figure {{ margin: 0; width: {width}px }}</style><main>{figures}</main>")
    tab.until("[...document.images].every(i => i.complete && i.naturalWidth)")
    tab.size(1324, tab.evaluate("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom) + 8"))
    tab.picture(name)


def all_pictures(tab):
    """Those that were taken, in the order of the steps."""
    pictures = []
    for path in sorted(glob.glob("/results/*.png"), key=os.path.getmtime):
        with open(path, "rb") as f:
            pictures.append((os.path.basename(path)[:-4], f.read()))
    sheet(tab, "all", pictures, 200)


def frames_of_its_own(frames):
    """Without those by which Cockpit sees whether the connection is there."""
    return [(way, text) for way, text in frames if '"ping"' not in text and '"pong"' not in text]


def text(value):
    """As an expression of JavaScript."""
    return json.dumps(value)
