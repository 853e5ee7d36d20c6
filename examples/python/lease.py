"""A lease for Python programs, over HTTP, with nothing but the standard library.

    with Lease("http://127.0.0.1:7420", "work:W-17", holder="worker-3") as lease:
        for item in items:
            lease.check()              # raises Lost as soon as the lease may be another's
            store(item, fence=lease.fence)

The lease is renewed in a thread, every third of its TTL. Its deadline is counted from before the request was sent that the
server answered, so that this program stops no later than the store gives the resource to another, whether or not a
renewal ever returns.
"""

import json
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid


class Refused(Exception):
    """The server said no; `problem` is what it said (RFC 9457), and `code` one of docs/errors.md."""

    def __init__(self, problem):
        super().__init__(problem.get("detail", "refused"))
        self.problem = problem
        self.code = problem.get("code")


class Lost(Exception):
    """The lease ran out or was taken away: stop, and write nothing more under its fence."""


class Lease:
    def __init__(self, url, resource, holder, *, ttl=30.0, wait=30.0, token=None):
        self.url = url.rstrip("/")
        self.resource = resource
        self.holder = holder
        self.ttl = ttl
        self.wait = wait
        self.token = token
        # The same id for every try: whatever an earlier one did, the next finds it.
        self.id = str(uuid.uuid4())
        self.fence = None
        self._deadline = 0.0
        self._ended = threading.Event()
        self._renewal = None

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()

    def acquire(self, tries=3):
        """Waits for the resource; raises Refused if it is another's all that time."""
        wanted = {
            "id": self.id,
            "resource": self.resource,
            "holder": self.holder,
            "ttlMs": int(self.ttl * 1000),
            "waitMs": min(60000, int(self.wait * 1000)),
        }
        for left in reversed(range(tries)):
            sent = time.monotonic()
            try:
                lease = self._ask("/v1/leases", wanted, self.wait + 10)["lease"]
                break
            except OSError:
                if left == 0:
                    raise
                time.sleep(0.2)
        self._hold(lease, sent + lease.get("waitedMs", 0) / 1000)
        self._renewal = threading.Thread(target=self._renew, daemon=True)
        self._renewal.start()
        return self

    @property
    def held(self):
        return not self._ended.is_set() and time.monotonic() < self._deadline

    def check(self):
        if not self.held:
            raise Lost(f"lease {self.id} of {self.resource} is over")

    def release(self):
        """Gives the lease back. One that is over already need not be."""
        self._ended.set()
        if self._renewal is not None:
            self._renewal.join()
        try:
            self._ask(f"/v1/leases/{self.id}/release", {"holder": self.holder}, 10)
        except Refused as refused:
            if refused.code not in ("LEASE_EXPIRED", "LEASE_TERMINAL"):
                raise

    def _hold(self, lease, counted_from):
        """One percent of the time is given away: two clocks may run at different rates."""
        self.fence = lease["fence"]
        self._deadline = counted_from + 0.99 * min(lease["ttlMs"], lease["remainingMs"]) / 1000

    def _renew(self):
        while not self._ended.wait(self.ttl / 3):
            sent = time.monotonic()
            try:
                renewal = self._ask(f"/v1/leases/{self.id}/renew", {"holder": self.holder}, self.ttl / 3)
            except Refused:
                self._ended.set()
            except OSError:
                # The server is away: the deadline stands, and the next try may still come in time.
                continue
            else:
                self._hold(renewal["lease"], sent)

    def _ask(self, path, body, timeout):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), method="POST")
        request.add_header("Content-Type", "application/json")
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise Refused(json.load(error)) from None


if __name__ == "__main__":
    url, resource, holder = sys.argv[1:4]
    with Lease(url, resource, holder, ttl=10, wait=5) as lease:
        lease.check()
        print(f"{holder} holds {resource} with fence {lease.fence}")
