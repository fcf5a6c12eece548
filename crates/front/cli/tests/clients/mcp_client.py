"""The Python client of MCP against `convoke mcp`, in each generation of the protocol."""

import asyncio
import json
import sys

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


async def check(program: str, mode: str, version: str) -> None:
    server = StdioServerParameters(command=program, args=["mcp"])
    async with Client(stdio_client(server), mode=mode) as client:
        assert client.session.protocol_version == version, client.session.protocol_version
        listed = await client.list_tools()
        names = ["explain", "review", "capture_diff", "assemble"]
        assert [tool.name for tool in listed.tools] == names, listed
        # Two calls at once, of which one is refused.
        explained, refused = await asyncio.gather(
            client.call_tool("explain", {"agents": ["codex@0.98"]}),
            client.call_tool("explain", {"agents": ["cobol"]}),
        )
        assert not explained.is_error and refused.is_error, (explained, refused)
        report = json.loads(explained.content[0].text)
        assert report["agents"][0]["loaded"][0]["path"].endswith("AGENTS.md"), report
        prompt = await client.call_tool("assemble", {"agent": "codex", "input": {"currentMessage": "Hello"}})
        assert "Hello" in json.loads(prompt.content[0].text)["prompt"], prompt
        try:
            await client.call_tool("nothing", {})
        except Exception as error:
            assert "unknown tool `nothing`" in str(error), error
        else:
            raise AssertionError("a tool that does not exist was called")


for mode, version in [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]:
    asyncio.run(asyncio.wait_for(check(sys.argv[1], mode, version), 60))
