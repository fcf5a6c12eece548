"""Packs the binary as a Python wheel: wheel.py VERSION BINARY OUTPUT. Prints the path of the wheel."""

import base64
import hashlib
import platform
import re
import sys
import zipfile
from pathlib import Path

DISTRIBUTION = "convoke_cli"
ROOT = Path(__file__).resolve().parent.parent.parent
# The same time in every build, so that equal inputs give equal wheels.
TIME = (2026, 1, 1, 0, 0, 0)


def platform_tag(binary: bytes) -> str:
    """Returns the platform of the binary: the oldest glibc that it runs with, and the machine."""
    versions = re.findall(rb"GLIBC_(\d+)\.(\d+)", binary)
    if not versions:
        sys.exit("wheel.py: the binary names no glibc version; is it a Linux binary for glibc?")
    major, minor = max((int(major), int(minor)) for major, minor in versions)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def main(version: str, binary_path: str, output: str) -> None:
    binary = Path(binary_path).read_bytes()
    tag = f"py3-none-{platform_tag(binary)}"
    info = f"{DISTRIBUTION}-{version}.dist-info"
    metadata = "\n".join([
        "Metadata-Version: 2.4",
        "Name: convoke-cli",
        f"Version: {version}",
        "Summary: Runs a conversation between people and coding agents, and shows exactly what each was sent.",
        "License-Expression: MIT OR Apache-2.0",
        "License-File: LICENSE-MIT",
        "License-File: LICENSE-APACHE",
        "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown",
        "",
        (ROOT / "README.md").read_text(encoding="utf-8"),
    ])
    wheel = f"Wheel-Version: 1.0\nGenerator: scripts/package\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = [
        (f"{DISTRIBUTION}-{version}.data/scripts/convoke", binary, 0o755),
        (f"{info}/METADATA", metadata.encode(), 0o644),
        (f"{info}/WHEEL", wheel.encode(), 0o644),
        (f"{info}/licenses/LICENSE-MIT", (ROOT / "LICENSE-MIT").read_bytes(), 0o644),
        (f"{info}/licenses/LICENSE-APACHE", (ROOT / "LICENSE-APACHE").read_bytes(), 0o644),
    ]
    path = Path(output) / f"{DISTRIBUTION}-{version}-{tag}.whl"
    record = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(content)}\n"
            archive.writestr(entry(name, mode), content)
        archive.writestr(entry(f"{info}/RECORD", 0o644), record + f"{info}/RECORD,,\n")
    print(path)


def entry(name: str, mode: int) -> zipfile.ZipInfo:
    """Returns the description of a file in the archive."""
    described = zipfile.ZipInfo(name, TIME)
    described.compress_type = zipfile.ZIP_DEFLATED
    # A regular file with these permissions.
    described.external_attr = (0o100000 | mode) << 16
    return described


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: wheel.py VERSION BINARY OUTPUT")
    main(*sys.argv[1:])
