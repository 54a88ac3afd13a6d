"""The protocol: what an agent's client asks, answered by tools, resources and prompts.

Whatever an agent can put right is a result that says so, never an error of the protocol.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server

from mcp import MCPError, types
from omnigraph.base.metrics import METRICS
from omnigraph.base.version import VERSION
from omnigraph.compiler.diagnostics import did_you_mean
from omnigraph.errors import BadRequestError, NotFoundError, OmniGraphError
from omnigraph.mcp.desk import Desk, Turn
from omnigraph.mcp.texts import (
    DIFF_TEMPLATE,
    INSTRUCTIONS,
    PAGES,
    PROMPTS,
    READ_ONLY,
    page_text,
    prompt_text,
)
from omnigraph.mcp.told import error_text
from omnigraph.mcp.toolbox import Choice, find_tool, tools_for
from omnigraph.mcp.tools import Tool

log = logging.getLogger("omnigraph.tools")
CALLS = METRICS.counter(
    "omnigraph_tool_calls_total",
    "Calls of tools by agents, by tool and how they ended.",
    "tool",
    "outcome",
)

Context = ServerRequestContext[Any, Any]
Work = Callable[[threading.Event], str]


class Caller(Protocol):
    """Who calls, and where the work is done."""

    @property
    def desk(self) -> Desk:
        """Where the agent works."""
        ...

    def run(self, work: Work, *, writes: bool) -> Awaitable[str]:
        """Do the work off the event loop; its event is set when nobody waits any more."""
        ...


class Service:
    """One server of the protocol, for one agent or for many."""

    def __init__(
        self, caller_of: Callable[[Context], Caller], choice: Choice, *, read_only: bool
    ) -> None:
        self._caller_of, self._choice = caller_of, choice
        self.server: Server[Any] = Server(
            "omnigraph",
            version=VERSION,
            instructions=READ_ONLY if read_only else INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del params
        caller = self._caller_of(ctx)
        found: list[Tool] = []

        def look(_: threading.Event) -> str:
            found.extend(tools_for(caller.desk, self._choice).values())
            return ""

        await caller.run(look, writes=False)
        return types.ListToolsResult(tools=[_described(one) for one in found])

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        caller, name, given = self._caller_of(ctx), params.name, params.arguments
        desk = caller.desk

        try:
            text = await self._called(caller, name, given)
        except OmniGraphError as error:
            self._note(desk, _counted(name, error), error.kind.value)
            text = error_text(error, desk.secrets, desk.budget)
            return types.CallToolResult(content=[_text(text)], is_error=True)
        self._note(desk, name, "ok")
        return types.CallToolResult(content=[_text(text)])

    @staticmethod
    def _note(desk: Desk, tool: str, outcome: str) -> None:
        """Count a call and log it: never what it was called with, nor what it said."""
        CALLS.add(1, tool, outcome)
        log.info("actor=%s session=%s tool=%s outcome=%s", desk.actor, desk.session, tool, outcome)

    async def _called(self, caller: Caller, name: str, given: dict[str, Any] | None) -> str:
        """Return what a tool says. Which there are may be a question to files, or to a server."""
        ready: list[Callable[[threading.Event], str]] = []

        def first(cancel: threading.Event) -> str:
            tool = self._tool(caller.desk, name)
            checked = tool.checked(given)

            def run(cancel: threading.Event) -> str:
                return tool.run(Turn(caller.desk, checked, cancel))

            if not tool.writes:
                return run(cancel)
            ready.append(run)  # writes are done where writes wait for each other
            return ""

        said = await caller.run(first, writes=False)
        return await caller.run(ready[0], writes=True) if ready else said

    def _tool(self, desk: Desk, name: str) -> Tool:
        tool = find_tool(desk, self._choice, name)
        if tool is None:
            tools = tools_for(desk, self._choice)
            hint = did_you_mean(name, tools) or f"there are {', '.join(tools)}"
            raise NoSuchToolError(f"there is no tool '{name}'", hint=hint)
        return tool

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        del ctx, params
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=one.uri, name=one.name, description=one.about, mime_type="text/plain"
                )
                for one in PAGES
            ]
        )

    async def _list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        del ctx, params
        template = types.ResourceTemplate(
            uri_template=DIFF_TEMPLATE,
            name="diff",
            description="What a branch changed since it left main; / in its name is %2F",
            mime_type="text/plain",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        caller, uri = self._caller_of(ctx), str(params.uri)

        def work(cancel: threading.Event) -> str:
            return page_text(Turn(caller.desk, {}, cancel), uri)

        text = await _or_refused(caller, caller.run(work, writes=False))
        content = types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
        return types.ReadResourceResult(contents=[content])

    async def _list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        del ctx, params
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=one.name,
                    description=one.about,
                    arguments=[
                        types.PromptArgument(
                            name=one.takes, description=one.takes_about, required=True
                        )
                    ],
                )
                for one in PROMPTS
            ]
        )

    async def _get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        del ctx
        given = " ".join((params.arguments or {}).values())
        try:
            text = prompt_text(params.name, given)
        except NotFoundError as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None
        message = types.PromptMessage(role="user", content=_text(text))
        return types.GetPromptResult(messages=[message])


class NoSuchToolError(BadRequestError):
    """An agent called a tool that it has not."""


def _counted(name: str, error: OmniGraphError) -> str:
    """Return what a failed call is counted under: what clients make up is no name of a metric."""
    return "unknown" if isinstance(error, NoSuchToolError) else name


async def _or_refused(caller: Caller, work: Awaitable[str]) -> str:
    """Return a text; of resources a refusal is an error of the protocol, as they have no other."""
    try:
        return await work
    except OmniGraphError as error:
        text = error_text(error, caller.desk.secrets, caller.desk.budget)
        raise MCPError(types.INVALID_PARAMS, text) from None


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.about,
        input_schema=tool.schema(),
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.writes,
            destructive_hint=tool.destroys,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
