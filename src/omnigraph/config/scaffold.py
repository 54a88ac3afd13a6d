"""The first `omnigraph.yaml` of a new graph: where it goes and what it says."""

from __future__ import annotations

import os.path
from pathlib import Path

from omnigraph.base.uri import has_scheme, stands_alone
from omnigraph.config.settings import FILE_NAME
from omnigraph.errors import StorageError

_TEMPLATE = """\
# Settings of the `omnigraph` command; every section and key is optional.
project:
  name: Omnigraph Project

graphs:
  local:
    uri: {uri}
    # bearer_token_env: OMNIGRAPH_BEARER_TOKEN

server:
  graph: local
  bind: 127.0.0.1:8080

cli:
  graph: local
  branch: main
  output_format: table
  table_max_column_width: 80
  table_cell_layout: truncate

query:
  roots: [queries, .]

aliases:
  # person:
  #   command: read
  #   query: people.gq
  #   name: person
  #   args: [name]
  #   format: kv
  # add-person:
  #   command: change
  #   query: people.gq
  #   name: add_person
  #   args: [name, age]

# queries:              # called by name, over HTTP and by agents, too
#   files: [stored]      # .gq files, and folders of them
#   expose: [add_person] # writes that agents may call

# embedding:
#   provider: local   # or openai, gemini
#   model: wordllama

# limits:
#   query_seconds: 60       # none switches a limit off
#   query_memory: 4GiB      # default: a quarter of the memory
#   job_memory: 8GiB        # default: half of it
#   process_memory: 8GiB    # default: half of it, for all calls together

# cache:
#   folder: /fast/disk/omnigraph   # default: below your home; off keeps nothing on disk
#   size: 20GiB

# auth:
#   env_file: ./.env.omni

# policy:
#   file: ./policy.yaml
"""


def config_path(uri: str) -> Path:
    """Return where the settings of a graph go: beside a local one, here for any other."""
    if has_scheme(uri):
        return Path(FILE_NAME)
    return Path(os.path.dirname(uri.rstrip("/")) or ".") / FILE_NAME  # noqa: PTH120 - lexical


def write_config(uri: str) -> Path | None:
    """Write the settings of a new graph unless there are some; return the file, if written."""
    path = config_path(uri)
    text = _TEMPLATE.format(uri=_quoted(_from(path.parent, uri)))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return None
    except OSError as error:
        raise StorageError(
            f"the graph exists, but '{path}' cannot be written: {error.strerror}"
        ) from error
    return path


def _from(folder: Path, uri: str) -> str:
    """Return a local path as seen from the settings file, anything else as it is."""
    if stands_alone(uri):
        return uri
    return os.path.relpath(uri, folder)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
