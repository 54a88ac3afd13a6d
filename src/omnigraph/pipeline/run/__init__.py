"""Who runs the tasks of a job.

- `engines` picks one: this process (`runner`) or `spark`, with a Java process of its own
  (`spark_jvm`, in its `own_folder`); `spark_types`: how columns look to Spark.
"""
