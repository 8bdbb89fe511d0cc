//! Problems of nodes and of what connects them.

use super::check;

#[test]
fn stores_and_topics() {
    check(
        r#"
[tables.t]
store = "memory"
[tables.u]
max_memory = "1 MiB"
[tables.v]
store = "disk"
max_memory = "1 MiB"
[tables.w]
topic = "a/b"
[tables."x y"]
[tables.z]
topic=''
"#,
        r#"
weir.toml:1:9: [tables.t] lacks max_memory; add max_memory = "256 MiB", the bound over which the store refuses to grow
weir.toml:4:14: tables.u.max_memory is for memory stores only; add store = "memory", or remove it (RocksDB shares state.memory)
weir.toml:6:9: tables.v.store is "disk"; write "rocksdb" or "memory"
weir.toml:9:9: tables.w.topic is "a/b", which Kafka does not take as a topic; use letters, digits, ".", "_" and "-", at most 249 of them
weir.toml:10:9: "x y" is no name; use letters, digits, ".", "_" and "-", at most 200 of them
weir.toml:12:7: tables.z.topic is empty; write topic = "z"
"#,
    );
    check(
        r#"
[global_tables.a]
store='memory'
max_memory='400 MiB'
[tables.b]
store='memory'
max_memory='200 MiB'
"#,
        r#"
weir.toml:1:1: state.memory is 512 MiB, less than its memory stores may hold: a (400 MiB) and b (200 MiB); raise it, or lower their max_memory
"#,
    );
}

#[test]
fn joins() {
    check(
        r#"
[plugins.p]
file='p'
[tables.t]
[joins.a]
left='in'
table='t'
kind='left'
on_miss='drop'
function='p.f'
[joins.b]
left='a'
table='t'
kind='outer'
on_miss='park'
function='p.f'
[joins.c]
[sinks.s]
from='b'
"#,
        r#"
weir.toml:8:9: joins.a.on_miss does not go with kind = "left"; write on_miss = "pass", or leave it out
weir.toml:13:6: joins.b.kind is "outer", which this version does not support; write "left" or "inner"
weir.toml:14:9: joins.b.on_miss is "park", which this version does not support; write "pass" or "drop"
weir.toml:16:8: [joins.c] lacks kind; add kind = "left" (a record without a row goes on) or kind = "inner" (it is dropped)
weir.toml:16:8: [joins.c] lacks left; add left = "a-stream"
weir.toml:16:8: [joins.c] lacks table; add table = "a-table"
weir.toml:16:8: [joins.c] lacks function; add function = "plugin.function"
"#,
    );
}

#[test]
fn aggregates() {
    check(
        r#"
[plugins.p]
file='p'
[plugins.q]
file='q'
[aggregates.a]
inputs=[]
emit='all'
[aggregates.b]
[aggregates.c]
inputs='in'
[aggregates.d]
inputs=[{from='in',function='p.f'},{from='in',function='q.g', onerror='x'}, 3]
"#,
        r#"
weir.toml:6:8: aggregates.a.inputs is empty; write inputs = [{ from = "a-stream", function = "plugin.function" }]
weir.toml:7:6: aggregates.a.emit is "all"; write "each", "batch" or "commit"
weir.toml:8:13: [aggregates.b] lacks inputs; add inputs = [{ from = "a-stream", function = "plugin.function" }]
weir.toml:10:8: aggregates.c.inputs is "in"; write an array, such as inputs = [{ from = "a-stream", function = "plugin.function" }]
weir.toml:12:56: [aggregates.d] has functions of p and of q; use one plugin: all functions of an aggregate read and write the same state
weir.toml:12:63: unknown key onerror in [aggregates.d.inputs[1]]; did you mean on_error?
weir.toml:12:77: aggregates.d.inputs[2] is 3; write a table: [aggregates.d.inputs[2]]
"#,
    );
}

#[test]
fn names_that_lead_nowhere_or_to_the_wrong_kind() {
    check(
        r#"
[plugins.plug]
file='p'
[tables.rows]
[global_tables.all]
[streams.events]
[transforms.x]
from='evnts'
function='plog.f'
[transforms.y]
from='rows'
function='other.f'
[joins.j]
left='nothing'
table='events'
kind='left'
function='plug.f'
[joins.k]
left='events'
table='row'
kind='left'
function='plug.f'
[joins.l]
left='events'
table='nothing'
kind='left'
function='plug.f'
[joins.m]
left='l'
table='k'
kind='left'
function='plug.f'
[sinks.s]
from='s'
[sinks.t]
from='m'
[sinks.u]
from='j'
[sinks.v]
from='x'
[sinks.w]
from='y'
"#,
        r#"
weir.toml:7:6: [transforms.x] takes records from evnts, which is not declared; did you mean events?
weir.toml:8:10: plog.f: there is no plugin plog; did you mean plug?
weir.toml:10:6: [transforms.y] takes records from rows, which is a table; name a stream, a join, an aggregate or a transform
weir.toml:11:10: other.f: there is no plugin other; add [plugins.other] with file = "other.wasm"
weir.toml:13:6: [joins.j] takes records from nothing, which is not declared; declare [streams.nothing], or name a node that is there
weir.toml:14:7: [joins.j] looks rows up in events, which is a stream; declare it as [tables.events] or [global_tables.events]
weir.toml:19:7: [joins.k] looks rows up in row, which is not declared; did you mean rows?
weir.toml:24:7: [joins.l] looks rows up in nothing, which is not declared; declare [tables.nothing] or [global_tables.nothing]
weir.toml:29:7: [joins.m] looks rows up in k, which is a join; name a table or a global table
weir.toml:33:6: [sinks.s] takes records from s, which is a sink; name a stream, a join, an aggregate or a transform
"#,
    );
}

#[test]
fn cycles_name_all_their_nodes() {
    check(
        r#"
[plugins.p]
file='p'
[transforms.c]
from='b'
function='p.f'
[transforms.a]
from='c'
function='p.f'
[transforms.b]
from='a'
function='p.f'
[transforms.self]
from='self'
function='p.f'
[sinks.s]
from='b'
[aggregates.g]
inputs=[{from='in',function='p.f'},{from='h',function='p.f'}]
[transforms.h]
from='g'
function='p.f'
"#,
        r#"
weir.toml:3:13: records go in a circle: c -> a -> b -> c; let one of them take its records from elsewhere
weir.toml:12:13: records go in a circle: self -> self; let one of them take its records from elsewhere
weir.toml:17:13: records go in a circle: g -> h -> g; let one of them take its records from elsewhere
"#,
    );
}

#[test]
fn names_are_unique_over_all_kinds() {
    check(
        r#"
[tables.x]
[streams.x]
topic='y'
[sinks.in]
from='in'
topic='z'
"#,
        r#"
weir.toml:2:10: x is the name of a table (line 1) and of a stream; give one of them another name (a topic can be named with topic = "…")
weir.toml:5:6: [sinks.in] takes records from in, which is a sink; name a stream, a join, an aggregate or a transform
--set streams.in.topic=in: in is the name of a sink (line 4) and of a stream; give one of them another name (a topic can be named with topic = "…")
"#,
    );
}

#[test]
fn topics_are_read_once_and_weirs_own_are_not_written() {
    check(
        r#"
[tables.x]
topic='in'
[global_tables.in2]
topic='in'
[sinks.back]
from='in'
topic='in'
[sinks.log]
from='in'
topic='a-agg-changelog'
[sinks.reg]
from='in'
topic='a-plugins'
[plugins.p]
file='p'
[aggregates.agg]
inputs=[{from='in',function='p.f'}]
"#,
        r#"
weir.toml:4:7: [global_tables.in2] reads in, which [tables.x] (line 1) reads already; declare a topic once and use it as often as needed
weir.toml:10:7: [sinks.log] writes to a-agg-changelog, the changelog of agg; write to a topic of your own
weir.toml:13:7: [sinks.reg] writes to a-plugins, the topic of the plugins; write to a topic of your own
--set streams.in.topic=in: [streams.in] reads in, which [tables.x] (line 1) reads already; declare a topic once and use it as often as needed
"#,
    );
    check(
        r#"
[sinks.back]
from='in'
topic='in'
"#,
        r#"
warning: weir.toml:3:7: [sinks.back] writes to in, which [streams.in] reads: records may go round for ever; write to another topic, unless that is meant
"#,
    );
}

#[test]
fn views_and_their_routes() {
    check(
        r#"
[plugins.p]
file='p'
[tables.orders]
[views.a]
route='api'
function='p.f'
stores=['order','in']
[views.b]
route='/v1/x'
function='p.f'
stores='orders'
[views.c]
route='/c'
function='p.f'
on_error='skip'
[views.d]
route='/c'
function='z.f'
[http.ready]
route='/c'
table='in'
[views.e]
route='/a/{id}'
function='p.f'
[views.f]
stores=[1]
"#,
        r#"
weir.toml:5:7: [views.a] has the route "api"; write a path of letters, digits, "-", "_", "." and "~", such as "/api/orders"
weir.toml:7:9: [views.a] reads order, which is not declared; did you mean orders?
weir.toml:7:17: [views.a] reads in, which is a stream; name a table, a global table or an aggregate
weir.toml:9:7: [views.b] has the route /v1/x, which Weir answers itself; choose another one, such as "/api/orders"
weir.toml:11:8: views.b.stores is "orders"; write an array of strings, such as stores = ["orders"]
weir.toml:15:1: unknown key on_error in [views.c]; there are route, function and stores
weir.toml:17:7: [views.d] has the route /c, which is taken (line 13); give it another route
weir.toml:18:10: z.f: there is no plugin z; add [plugins.z] with file = "z.wasm"
weir.toml:20:7: [http.ready] has the route /c, which is taken (line 17); give it another route
weir.toml:21:7: [http.ready] waits for in, which is a stream; name a table or a global table
weir.toml:23:7: [views.e] has the route "/a/{id}"; write a path of letters, digits, "-", "_", "." and "~", such as "/api/orders"
weir.toml:25:8: [views.f] lacks route; add route = "/api/orders"
weir.toml:25:8: [views.f] lacks function; add function = "plugin.function"
weir.toml:26:8: views.f.stores is an array; write an array of strings, such as stores = ["orders"]
"#,
    );
}

#[test]
fn dead_letters_need_a_topic() {
    check(
        r#"
[plugins.p]
file='p'
[transforms.x]
from='in'
function='p.f'
on_error='dlq'
[sinks.s]
from='x'
"#,
        r#"
weir.toml:5:10: p.f has on_error = "dlq", but there is no [dead_letters]; add [dead_letters] with topic = "dead-letters"
"#,
    );
    check(
        r#"
[dead_letters]
topic='d'
"#,
        r#"
warning: weir.toml:2:7: [dead_letters] is not used; set on_error = "dlq" where a function is used, or remove it
"#,
    );
    check(
        r#"
[dead_letters]
"#,
        r#"
weir.toml:1:2: [dead_letters] lacks topic; add topic = "dead-letters"
"#,
    );
}

#[test]
fn what_nobody_uses_is_warned_of() {
    check(
        r#"
[plugins.p]
file='p'
[plugins.q]
file='q'
[transforms.x]
from='in'
function='p.f'
"#,
        r#"
warning: weir.toml:4:6: no function of the plugin q is used; use one, or remove the plugin
warning: weir.toml:5:13: nothing takes the records of [transforms.x]; name it in a sink, an aggregate, a join or a transform, or remove it
"#,
    );
}
