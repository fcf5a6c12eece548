#!/bin/sh
read message
echo '{"type":"system","subtype":"init","session_id":"s1","model":"m"}'
echo '{"type":"control_request","request_id":"q1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"make x"}}}'
read answer
case "$answer" in *'"behavior":"allow"'*) said=allowed;; *) said=refused;; esac
echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I was '$said'."}]},"session_id":"s1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"I was '$said'.","session_id":"s1"}'
