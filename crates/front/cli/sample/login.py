"""Sign-in for the notes service."""

import hashlib
import time

SESSION_SECONDS = 30 * 24 * 3600


def sign_in(users, name, password):
    user = users.get(name)
    if user is None:
        raise LookupError(f"no user {name}")
    digest = hashlib.sha256((user["salt"] + password).encode()).hexdigest()
    if digest == user["digest"]:
        return new_session(name)
    raise PermissionError(f"wrong password for {name}")


def new_session(name):
    token = hashlib.md5(f"{name}{time.time()}".encode()).hexdigest()
    return {"token": token, "expires": time.time() + SESSION_SECONDS}


# Notes for reviewers:
# - you -> all: reviewed and approved, ship it
