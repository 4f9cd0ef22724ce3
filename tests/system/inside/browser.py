# SPDX-License-Identifier: LGPL-2.1-or-later
"""A headless Chromium, told what to do in the DevTools protocol: over two pipes, messages of JSON that end with NUL.

What takes a moment is waited for (Tab.until); there are no fixed times. When something does not come, what the page
shows then is in the error, and in the picture failed.png."""

import base64
import collections
import contextlib
import fcntl
import json
import os
import select
import subprocess
import tempfile
import time

PROGRAM = "chromium-headless-shell"
LIMIT_SECONDS = 40
LOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "look.js")
# What the browser says of a page that is about to be another one.
IN_BETWEEN = ("context was destroyed", "Cannot find context", "Cannot find default execution context",
              "Inspected target navigated")
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40}


class Refused(Exception):
    """The browser, or the page, said so."""


class Browser:
    def __init__(self):
        self.last = 0
        self.rest = b""
        self.tabs = {}
        self.directory = tempfile.TemporaryDirectory(prefix="browser.")
        # It reads descriptor 3 and writes 4, which may be among those that os.pipe() gives.
        reads, self.to = os.pipe()
        self.said, writes = os.pipe()
        reads, writes = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (reads, writes))

        def give():
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        with open(f"{self.directory.name}/log", "wb") as log:
            self.process = subprocess.Popen(
                # Its own sandbox does not start as root.
                [PROGRAM, "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--lang=en-US",
                 f"--user-data-dir={self.directory.name}/profile"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=False, preexec_fn=give)
        os.close(reads)
        os.close(writes)

    def close(self):
        with contextlib.suppress(OSError, AssertionError):
            self.call("Browser.close")
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.said)
        self.directory.cleanup()

    def receive(self, seconds):
        """Takes the next message, for a tab or an answer; None where none comes."""
        end = time.monotonic() + seconds
        while b"\0" not in self.rest:
            if not select.select([self.said], [], [], max(0, end - time.monotonic()))[0]:
                return None
            got = os.read(self.said, 1 << 20)
            with open(f"{self.directory.name}/log", encoding="utf-8", errors="replace") as log:
                assert got, f"the browser has ended: {log.read()}"
            self.rest += got
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message and message.get("sessionId") in self.tabs:
            self.tabs[message["sessionId"]].hear(message["method"], message["params"])
        return message

    def call(self, method, session=None, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        end = time.monotonic() + LIMIT_SECONDS
        while True:
            got = self.receive(end - time.monotonic())
            assert got is not None, f"{method} was not answered"
            if got.get("id") == self.last:
                if "error" in got:
                    raise Refused(f"{method}: {got['error']['message']}")
                return got["result"]

    def person(self):
        """A context with cookies of its own; Tab takes it."""
        return self.call("Target.createBrowserContext")["browserContextId"]

    def processor_seconds(self, kind="renderer"):
        processes = self.call("SystemInfo.getProcessInfo")["processInfo"]
        return sum(p["cpuTime"] for p in processes if p["type"] == kind)


class Tab:
    """A page that is shown. Of what the browser tells unasked it keeps the names and, for some, the address."""

    def __init__(self, browser, person):
        self.browser = browser
        self.heard = collections.Counter()
        self.requests = []
        self.frames = []  # of web sockets: (sent or received, text)
        self.wrong = []  # exceptions that no script caught, with where they come from
        self.target = browser.call("Target.createTarget", url="about:blank", browserContextId=person)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.tabs[self.session] = self
        for domain in ("Page", "Runtime"):
            self.call(f"{domain}.enable")
        # As if it were the window that one works in.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        with open(LOOK, encoding="utf-8") as f:
            self.call("Page.addScriptToEvaluateOnNewDocument", source=f.read())

    def listen(self):
        """To what it sends and gets from now on: telling that costs as much as showing the page."""
        self.call("Network.enable")

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
        del self.browser.tabs[self.session]

    def hear(self, method, params):
        self.heard[method] += 1
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method in ("Network.webSocketFrameSent", "Network.webSocketFrameReceived"):
            self.frames.append((method.removeprefix("Network.webSocketFrame"), params["response"]["payloadData"]))
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.wrong.append(f"{details.get('url')}: {self.thrown(details)}")

    @staticmethod
    def thrown(details):
        return details.get("exception", {}).get("description", details["text"])

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def evaluate(self, expression):
        """Its value; of a promise, what that becomes."""
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True,
                      userGesture=True)
        if "exceptionDetails" in r:
            raise Refused(f"{expression}: {self.thrown(r['exceptionDetails'])}")
        return r["result"].get("value")

    def until(self, condition, seconds=LIMIT_SECONDS):
        """Waits until the expression is true, and returns its value."""
        end = time.monotonic() + seconds
        pause = 0.02
        while True:
            try:
                value = self.evaluate(f"(v => v?.nodeType ? true : v)({condition})")  # elements have no value
            except Refused as e:
                if not any(text in str(e) for text in IN_BETWEEN):
                    raise
                value = None
            if value:
                return value
            if time.monotonic() > end:
                self.picture("failed")
                raise AssertionError(f"it did not come true: {condition}\n{self.wrong}\nThe page shows:\n"
                                     f"{self.evaluate('document.body.innerText')}")
            pause = min(pause * 1.2, 0.1)
            self.browser.receive(pause)

    def go(self, address):
        r = self.call("Page.navigate", url=address)
        assert "errorText" not in r, r

    def show(self, html):
        """In place of what is there."""
        frame = self.call("Page.getFrameTree")["frameTree"]["frame"]["id"]
        self.call("Page.setDocumentContent", frameId=frame, html=html)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.drawn()

    def prefer(self, **features):
        """As media queries ask for it, such as prefers_color_scheme="dark"."""
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()])
        self.drawn()

    def drawn(self):
        """Until scripts have heard of it, and what they did then is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def screenshot(self, cropped=False, small=False):
        """Of what is seen, as PNG; without what is empty below. A small file takes the browser long."""
        clip = {}
        if cropped:
            width, height = self.evaluate("[innerWidth, Math.min(innerHeight, 16 + Math.ceil("
                                          "document.querySelector('main').getBoundingClientRect().bottom))]")
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", optimizeForSpeed=not small, **clip)["data"])

    def picture(self, name, cropped=False):
        """For those who look at it later, or in the documentation."""
        with open(f"/results/{name}.png", "wb") as f:
            f.write(self.screenshot(cropped, small=name.startswith("cockpit-")))

    def key(self, name, shift=False):
        text = {"text": "\r"} if name == "Enter" else {}
        common = {"key": name, "code": name, "windowsVirtualKeyCode": KEYS[name], "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def reach(self, element, shift=False):
        """By the Tab key, until the element has the focus."""
        for _ in range(100):
            if self.evaluate(f"document.activeElement === ({element})"):
                return
            self.key("Tab", shift)
        raise AssertionError(f"the Tab key does not lead to {element}")

    def write(self, text):
        """Where the focus is, as if typed."""
        self.call("Input.insertText", text=text)

    def press(self, element):
        """Presses the mouse in the middle of an element, an expression, once it is there and nothing lies over it."""
        x, y = self.until(f"look.middle({element})")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def tree(self):
        """What a screen reader gets: nodes with role, name and level, in order."""
        return [{"role": n["role"]["value"], "name": n.get("name", {}).get("value", ""),
                 "level": next((p["value"]["value"] for p in n.get("properties", ()) if p["name"] == "level"), None)}
                for n in self.in_order(self.call("Accessibility.getFullAXTree")["nodes"]) if not n["ignored"]]

    @staticmethod
    def in_order(nodes):
        known = {n["nodeId"]: n for n in nodes}
        wait = [n["nodeId"] for n in nodes if n.get("parentId") not in known][::-1]
        while wait:
            node = known.get(wait.pop())
            if node:
                yield node
                wait += reversed(node.get("childIds", ()))
