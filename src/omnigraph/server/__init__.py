"""One graph over HTTP: an ASGI application without a framework, and what runs it.

In control-flow order: `main` (what is wrong is told before anybody listens), `runtime` (granian
or uvicorn), `boot` (opens the graph in a worker), `app` (a request to its route, what came of it to
an answer), `routes` (the one table), `call` (who asks, judged before anything is looked up),
`handlers`, `execution` and `admission` (where work runs, and how much is let in), `rules` and
`tokens` (who may come in), `http` (bodies and answers), `problems` (errors as answers), `row_text`
(rows as text and Arrow), `bodies` and `contract` (requests and answers), `openapi` and `page` (the
documents made of them), `options`, `logs`.
"""
