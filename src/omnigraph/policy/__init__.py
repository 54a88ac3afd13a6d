"""Who may do what: rules in a YAML file, judged by the words of Cedar.

`model` is what a file says, `read` how it is read; `decide` judges requests, `cedar` says the same
rules in Cedar and lets the real Cedar judge; `cases` are requests with the answers somebody
expects, and `load` puts it all together: a policy is in force only if both judges agree on it.
`rows` says which rows somebody sees where. `guard` is a graph that asks the policy before it does
anything (`guarded_branch`, `guarded_history`, `guarded_queries`: its parts).
"""
