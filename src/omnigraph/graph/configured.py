"""The one way from settings to an open graph, for every surface and tool.

What a settings file does not say is by the environment, and otherwise by the machine. A program
that opens a graph with options of its own goes through the second half alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from omnigraph.base.budget import limit_process_memory
from omnigraph.config.cache import cache_in_force
from omnigraph.config.embedding import embedder_options
from omnigraph.config.environment import Environment, s3_options, spark_master
from omnigraph.config.limits import LimitsInForce, limits_in_force
from omnigraph.config.logs import slow_ms_in_force
from omnigraph.config.settings import EmbeddingSettings, Settings
from omnigraph.embedders.choose import embedder_of
from omnigraph.engine.image.shelf import ShelfOptions
from omnigraph.engine.search.embedder import Embedder
from omnigraph.graph.options import AUTO, GraphOptions
from omnigraph.pipeline.model import PipelineOptions, SparkSettings
from omnigraph.storage.options import S3Options


def graph_options(settings: Settings, *uris: str) -> GraphOptions:
    """Return how settings open the graphs at `uris`; the process is limited as they say."""
    chosen = embedder_options(settings.embedding, settings.environment)
    limits = limits_in_force(settings.environment, settings.limits)
    limit_process_memory(limits.process_memory)
    cache = cache_in_force(settings.environment, settings.cache)
    return GraphOptions(
        cache=cache.folder if cache.is_asked_for else AUTO,
        cache_bytes=cache.max_bytes,
        storage=settings.storage_options(*uris),
        pipeline=pipeline_options(settings),
        embedder=embedder_of(chosen),
        limits=limits.query,
        job_limits=limits.job,
        queries=settings.queries,
        slow_query_ms=settings.logging.slow_query_ms,
    )


def pipeline_options(settings: Settings) -> PipelineOptions:
    """Return how settings run bulk jobs; where Spark is, the environment says before the file."""
    found, spark = settings.pipeline, settings.pipeline.spark
    master = spark_master(settings.environment) or spark.master
    memory = spark.memory or SparkSettings().memory
    options = PipelineOptions(
        engine=found.engine,
        spark_above_bytes=found.spark_above_mib << 20,
        max_errors=found.max_errors,
        staging=found.staging,
        spark_memory=memory,
        spark_conf=spark.conf,
    )
    return options if master is None else replace(options, spark=options.own_spark(master))


def settled(
    options: GraphOptions, environment: Environment, inherited: LimitsInForce
) -> GraphOptions:
    """Return options that leave nothing to the environment: limits, slow calls, where Spark is."""
    pipeline, master = options.pipeline, spark_master(environment)
    if pipeline.spark is None and master is not None:
        pipeline = replace(pipeline, spark=pipeline.own_spark(master))
    return replace(
        options,
        limits=options.limits.over(inherited.query),
        job_limits=options.job_limits.over(inherited.job),
        pipeline=pipeline,
        slow_query_ms=slow_ms_in_force(options.slow_query_ms, environment),
    )


def shelf_options(options: GraphOptions, environment: Environment) -> ShelfOptions | None:
    """Return where derived files are; None if none are kept.

    Raises:
        BadRequestError: the environment says something that is no size.
    """
    said = cache_in_force(environment)
    most = said.max_bytes if options.cache_bytes is None else options.cache_bytes
    if options.cache == AUTO:
        folder, is_asked_for = said.folder, said.is_asked_for
    else:
        folder, is_asked_for = None if options.cache is None else Path(options.cache), True
    return None if folder is None else ShelfOptions(folder, most, is_asked_for)


def chosen_embedder(options: GraphOptions, environment: Environment) -> Embedder | None:
    """Return who turns text into vectors: the one that was given, or the environment's.

    Raises:
        BadRequestError: the environment asks for an embedder there is none of.
    """
    if options.embedder != "auto":
        return options.embedder
    return embedder_of(embedder_options(EmbeddingSettings(), environment))


def input_options(options: GraphOptions, environment: Environment) -> S3Options:
    """Return how to reach the object stores of inputs: like the graph's own, if it is in one.

    Raises:
        BadRequestError: what the environment says is refused.
    """
    own = options.storage.s3
    return own if own != S3Options() else s3_options(environment)
