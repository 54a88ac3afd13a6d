"""Loads from and into an object store: the same files, found and read there."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import omnigraph
from omnigraph import GraphOptions
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.pipeline.inputs.files import InputFile, _s3_files
from omnigraph.pipeline.model import UnreadableError
from omnigraph.pipeline.run.spark_jvm import keep_quiet
from omnigraph.storage.options import S3Options, StorageOptions
from tests.pipeline.conftest import SCHEMA, edge, jsonl, node, rows
from tests.support.s3 import BUCKET, running_s3

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3")]


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        found = server.options()
        yield S3Options(**{**found, "allow_http": True})


@pytest.fixture
def far(options, request):
    place = f"s3://{BUCKET}/{request.node.name[:40]}/g.omni"
    storage = StorageOptions(s3=options, maintenance="manual")
    with omnigraph.init(place, SCHEMA, options=GraphOptions(storage=storage)) as made:
        yield made


def put(options, name, data):
    with _s3_files(options).open_output_stream(f"{BUCKET}/{name}", compression=None) as out:
        out.write(data)


def test_files_of_an_object_store_are_loaded_into_a_graph_there(far, options, spark):
    put(options, "in/a.jsonl", jsonl(*(node("Person", name=f"p{at}") for at in range(9))))
    put(options, "in/b.jsonl.gz", gzip.compress(jsonl(edge("Knows", "p0", "p1"))))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": ["x"]}), sink)
    put(options, "in/Note.parquet", sink.getvalue().to_pybytes())
    far.load(f"s3://{BUCKET}/in/")
    found = {key: rows(far, key) for key in ("node:Person", "node:Note", "edge:Knows")}
    assert [len(one) for one in found.values()] == [9, 1, 1]
    far.load(f"s3://{BUCKET}/in/*.jsonl", "merge", spark=spark)
    assert rows(far, "node:Person") == found["node:Person"]
    far.load({"Note": f"s3://{BUCKET}/in/Note.parquet"}, "append")
    assert len(rows(far, "node:Note")) == 2
    assert far.store.check_files() == [], "whoever wrote a file took its digest"


class FarContext:
    """Looks like the context of a cluster as long as nothing is run."""

    master = "spark://far:7077"

    def parallelize(self):
        raise NotImplementedError


def test_a_cluster_must_be_told_of_a_folder_that_all_workers_see(far, options):
    put(options, "one/a.jsonl", jsonl(node("Person", name="x")))
    with pytest.raises(BadRequestError, match="workers of a cluster cannot see"):
        far.load(f"s3://{BUCKET}/one/a.jsonl", spark=FarContext())


def test_faults_and_missing_objects_are_named(far, options):
    put(options, "bad/a.jsonl", jsonl(node("Person", name="x")) + b"{}\n")
    with pytest.raises(omnigraph.OmniGraphError, match=f"s3://{BUCKET}/bad/a.jsonl:2: expected"):
        far.load(f"s3://{BUCKET}/bad/a.jsonl")
    for name in ("bad/none.jsonl", "bad/*.csv"):
        with pytest.raises(NotFoundError, match=r"none.jsonl|csv"):
            far.load(f"s3://{BUCKET}/{name}")
    with pytest.raises(UnreadableError, match="cannot be read"):
        InputFile("no-such-bucket/x", options).head(1)


def test_spark_reads_a_graph_there_with_what_the_graph_was_opened_with(far, options, spark):
    keep_quiet()
    session = SparkSession(spark)
    far.load(jsonl(node("Person", name="x", age=1), node("Person", name="y")))
    frame = far.spark(session)["Person"]
    assert sorted(row["id"] for row in frame.collect()) == ["x", "y"]
    reader = (
        session.read.format("omnigraph")
        .options(type="Person", columns="age")
        .options(
            AWS_ENDPOINT_URL=options.endpoint,
            AWS_ACCESS_KEY_ID=options.access_key_id,
            AWS_SECRET_ACCESS_KEY=options.secret_access_key,
            AWS_REGION=options.region,
        )
    )
    with pytest.raises(AnalysisException, match="AWS_ALLOW_HTTP=true"):
        reader.load(far.uri)
    found = reader.option("AWS_ALLOW_HTTP", "true").load(far.uri).where("age = 1")
    assert [tuple(row) for row in found.collect()] == [(1,)]
