//! Problems of the text, and of the sections with options.

use super::check;

#[test]
fn syntax_errors_come_alone() {
    check(
        r#"
[app
id = "x"
threads = "a
[kafka]
= 3
"#,
        r#"
weir.toml:1:5: this is no TOML: unclosed table, expected `]`
weir.toml:5:1: this is no TOML: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`
"#,
    );
    check(
        r#"
[app]
threads = 99999999999999999999
guarantee = 3
"#,
        r#"
weir.toml:2:11: the number 99999999999999999999 is out of range; write it with fewer digits
"#,
    );
}

#[test]
fn doubles_come_with_the_rest() {
    check(
        r#"
[app]
threads = 0
threads = 2
[app]
"#,
        r#"
weir.toml:2:11: app.threads is 0; write a whole number from 1 to 1024
weir.toml:3:1: threads is there twice; keep one of them
weir.toml:4:2: app is there twice; keep one of them
"#,
    );
    check(
        r#"
[kafka]
a.b = 1
'a.b' = 2
"#,
        r#"
weir.toml:3:1: [kafka] has a.b twice; keep one of them
"#,
    );
}

#[test]
fn app_options() {
    check(
        r#"
app = 3
"#,
        r#"
weir.toml:1:7: app is 3; write a table: [app]
--set app.id=a: app is 3 (line 1), not a table; set what is there, or write a table there
"#,
    );
    check(
        r#"
[app]
id = "a b"
guarantee = "exactly_once"
threads = 0
commit_interval = 100
time = "versioned"
offset_reset = "none"
max_task_idle = "2 h"
on_stop = "wait"
threds = 2
"#,
        r#"
weir.toml:3:13: app.guarantee is "exactly_once"; write "exactly-once" or "at-least-once"
weir.toml:4:11: app.threads is 0; write a whole number from 1 to 1024
weir.toml:5:19: app.commit_interval is 100; write a duration from 1 ms to 30 s, such as "100 ms" (ms, s, min, h, d)
weir.toml:6:8: app.time is "versioned", which this version does not support; write "latest" or "timestamp"
weir.toml:7:16: app.offset_reset is "none"; write "earliest" or "latest"
weir.toml:8:17: app.max_task_idle is "2 h"; write a duration from 0 ms to 1 h, such as "1 s" (ms, s, min, h, d)
weir.toml:9:11: app.on_stop is "wait"; write "leave" or "stay"
weir.toml:10:1: unknown key threds in [app]; did you mean threads?
"#,
    );
    check(
        r#"
[[app]]
id='x'
"#,
        r#"
weir.toml:1:1: app is an array; write a table: [app]
--set app.id=a: app is an array (line 1), not a table; set what is there, or write a table there
"#,
    );
}

#[test]
fn kafka_properties_that_weir_owns_and_java_names() {
    check(
        r#"
[kafka]
group.id = "g"
sasl.jaas.config = "x"
"key.serializer" = "x"
linger.ms = [1]
commit.interval.ms = 5
"#,
        r#"
weir.toml:2:7: [kafka] has group.id, which Weir sets itself: the consumer group is app.id; remove it, or change app.id
weir.toml:3:11: [kafka] has sasl.jaas.config, which is no property of librdkafka; write its user as "sasl.username" and its password as "sasl.password"
weir.toml:4:1: [kafka] has key.serializer, which is no property of librdkafka; remove it: plugins read and write the records' bytes themselves
weir.toml:5:13: kafka.linger.ms is an array; write a string or a number, such as "linger.ms" = "…" (lists with commas)
weir.toml:6:17: [kafka] has commit.interval.ms, which is no property of librdkafka; set app.commit_interval, such as "100 ms"
"#,
    );
}

#[test]
fn state_options() {
    check(
        r#"
[state]
dir = 5
memory = "1 MiB"
cleanup_delay = "0 ms"
standby = 17
cache = 1
"#,
        r#"
weir.toml:2:7: state.dir is 5; write a string, such as dir = "state"
weir.toml:3:10: state.memory is "1 MiB"; write a size from 64 MiB to 65536 GiB, such as "512 MiB" (B, KiB, MiB, GiB)
weir.toml:4:17: state.cleanup_delay is "0 ms"; write a duration from 1 s to 365 d, such as "10 min" (ms, s, min, h, d)
weir.toml:5:11: state.standby is 17; write a whole number from 0 to 16
weir.toml:6:1: unknown key cache in [state]; there are dir, memory, cleanup_delay and standby
"#,
    );
}

#[test]
fn http_options_and_the_readiness_route() {
    check(
        r#"
[http]
listen = "8080"
max_body = "x"
port = 1
[http.ready]
table = "in"
min_records = -1
not_ready = "loaded {n}"
"#,
        r#"
weir.toml:2:10: http.listen is "8080"; write an IP address and a port, such as listen = "127.0.0.1:8080"
weir.toml:3:12: http.max_body is "x"; write a size from 1 KiB to 1 GiB, such as "64 MiB" (B, KiB, MiB, GiB)
weir.toml:4:1: unknown key port in [http]; there are listen, max_body and ready
weir.toml:5:7: [http.ready] lacks route; add route = "/ready"
weir.toml:6:9: [http.ready] waits for in, which is a stream; name a table or a global table
weir.toml:7:15: http.ready.min_records is -1; write a whole number from 0 to 1000000000000
weir.toml:8:13: http.ready.not_ready has braces with something else than {count} in them; write, for example, not_ready = "Not ready: loaded {count} records"
"#,
    );
    check(
        r#"
[http.ready]
route='/livez'
table='ordres'
[global_tables.orders]
"#,
        r#"
weir.toml:2:7: [http.ready] has the route /livez, which Weir answers itself; choose another one, such as "/api/orders"
weir.toml:3:7: [http.ready] waits for ordres, which is not declared; did you mean orders?
"#,
    );
}

#[test]
fn barrier_options() {
    check(
        r#"
[barrier]
scope = "app"
timeout = "never"
on_timeout = 1
"#,
        r#"
weir.toml:2:9: barrier.scope is "app", which this version does not support; write "off", "task" or "instance"
weir.toml:3:11: barrier.timeout is "never"; write a duration from 1 ms to 30 d, such as "5 min" (ms, s, min, h, d)
weir.toml:4:14: barrier.on_timeout is 1; write "fail" or "proceed"
"#,
    );
    check(
        r#"
[barrier]
on_timeout='fail'
"#,
        r#"
warning: weir.toml:1:2: barrier.on_timeout has no effect without a timeout; add timeout = "5 min", or remove on_timeout
"#,
    );
}

#[test]
fn plugin_options() {
    check(
        r#"
[plugins."a.b"]
file = ""
[plugins.p]
memory = "5 GiB"
call_timeout = "0 s"
config = 3
[plugins.q]
file = "q.wasm"
config = { x = [inf] }
"#,
        r#"
weir.toml:1:10: "a.b" is no name for a plugin; use letters, digits, "_" and "-", at most 100 of them: a function is named "plugin.function"
weir.toml:2:8: plugins.a.b.file is empty; write file = "a.b.wasm"
weir.toml:3:10: [plugins.p] lacks file; add file = "p.wasm"
weir.toml:4:10: plugins.p.memory is "5 GiB"; write a size from 1 MiB to 4 GiB, such as "64 MiB" (B, KiB, MiB, GiB)
weir.toml:5:16: plugins.p.call_timeout is "0 s"; write a duration from 1 ms to 1 min, such as "100 ms" (ms, s, min, h, d)
weir.toml:6:10: plugins.p.config is 3; write a table, such as config = { currency = "EUR" }
weir.toml:9:10: plugins.q.config holds inf, which JSON cannot say; plugins get their configuration as JSON: write a finite number
"#,
    );
}

#[test]
fn tables_that_are_none_and_unknown_sections() {
    check(
        r#"
streams = 3
[tables]
t = "topic"
[sinks.s]
form = "in"
[transforms.x]
from = "in"
function = "f"
on_error = "retry"
[stream.y]
"#,
        r#"
weir.toml:1:11: streams is 3; write a table: [streams]
weir.toml:3:5: tables.t is "topic"; write a table: [tables.t]
weir.toml:4:8: [sinks.s] lacks from; add from = "a-stream"
weir.toml:5:1: unknown key form in [sinks.s]; did you mean from?
weir.toml:7:8: [transforms.x] takes records from in, which is not declared; declare [streams.in], or name a node that is there
weir.toml:8:12: transforms.x.function is "f"; write the plugin's name, a dot and the function's name: "plugin.function"
weir.toml:9:12: transforms.x.on_error is "retry", which this version does not support; write "fail", "skip" or "dlq"
weir.toml:10:2: unknown section [stream]; did you mean [streams]?
--set streams.in.topic=in: streams is 3 (line 1), not a table; set what is there, or write a table there
"#,
    );
}
