"""The Python SDK of ACP as an editor, against the command that the arguments are."""

import asyncio
import os
import sys

import acp
from acp.schema import AllowedOutcome, ClientCapabilities, Implementation, RequestPermissionResponse


class Editor(acp.Client):
    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        self.kinds: list[str] = []

    async def session_update(self, session_id, update, **_) -> None:
        self.kinds.append(update.session_update)
        if update.session_update == "agent_message_chunk":
            self.words[session_id] = self.words.get(session_id, "") + update.content.text

    async def request_permission(self, options, session_id, tool_call, **_):
        chosen = next(option for option in options if option.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))


async def check(command: list[str]) -> None:
    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 26
    )
    editor = Editor()
    connection = acp.connect_to_agent(editor, child.stdin, child.stdout)
    hello = await connection.initialize(
        protocol_version=1,
        client_capabilities=ClientCapabilities(),
        client_info=Implementation(name="test", version="1"),
    )
    assert hello.protocol_version == 1 and hello.agent_capabilities.load_session, hello
    here = os.getcwd()
    session = await connection.new_session(cwd=here, mcp_servers=[])
    name = session.session_id
    answer = await connection.prompt(session_id=name, prompt=[acp.text_block("Hello, team")])
    assert answer.stop_reason == "end_turn", answer
    assert editor.words[name], editor.kinds
    assert "available_commands_update" in editor.kinds, editor.kinds
    # A cancel that meets no prompt, and one that meets a prompt at its beginning.
    await connection.cancel(session_id=name)
    prompt = asyncio.create_task(connection.prompt(session_id=name, prompt=[acp.text_block("Again")]))
    await connection.cancel(session_id=name)
    assert (await prompt).stop_reason in ("cancelled", "end_turn")
    before = editor.words[name]
    await connection.load_session(cwd=here, session_id=name, mcp_servers=[])
    assert len(editor.words[name]) > len(before), "the history is repeated"
    await connection.resume_session(cwd=here, session_id=name, mcp_servers=[])
    listed = await connection.list_sessions(cwd=here)
    assert [it.session_id for it in listed.sessions] == [name] and listed.sessions[0].title, listed
    await connection.close_session(session_id=name)
    try:
        await connection.prompt(session_id="nobody", prompt=[acp.text_block("x")])
    except acp.RequestError as error:
        assert error.code == -32002, error
    else:
        raise AssertionError("a prompt of no session was answered")
    child.stdin.close()
    assert await child.wait() == 0


asyncio.run(asyncio.wait_for(check(sys.argv[1:]), 120))
