//! Views over a store in memory, and every response that HTTP must not carry.

use std::sync::mpsc;
use std::thread;

use super::super::test_guest::{Guest, JOIN_CONCAT};
use super::super::{Engine, Limits, PluginSpec, Wanted};
use super::*;
use crate::model::Generation;

/// One store, `orders`, with one entry: `/a` → `paid`.
struct Orders;

impl ViewStores for Orders {
    fn get(&self, _store: &str, key: &[u8]) -> Result<Option<Bytes>, String> {
        Ok((key == b"/a").then(|| Bytes::from_static(b"paid")))
    }

    fn count(&self, store: &str) -> Result<u64, String> {
        Err(format!("{store} is not here"))
    }
}

/// Answers with the value of `orders` under the request's path, or 404, or 500 with the store's error.
const LOOKUP: &str = "
    (call $get (i32.const 560) (i32.const 6) (local.get $path) (local.get $path_len) (i32.const 64))
    (i32.store (i32.const 104) (i32.const 576))
    (i32.store (i32.const 108) (i32.const 10))
    (if (i32.load8_u (i32.const 64))
        (then
            (i32.store16 (i32.const 100) (i32.const 500))
            (i32.store (i32.const 112) (i32.load (i32.const 68)))
            (i32.store (i32.const 116) (i32.load (i32.const 72))))
        (else (if (i32.load8_u (i32.const 68))
            (then
                (i32.store16 (i32.const 100) (i32.const 200))
                (i32.store (i32.const 112) (i32.load (i32.const 72)))
                (i32.store (i32.const 116) (i32.load (i32.const 76))))
            (else
                (i32.store16 (i32.const 100) (i32.const 404))
                (i32.store (i32.const 116) (i32.const 0))))))
    (i32.const 100)";

/// A set with the view `lookup`, and a joiner that is no view.
fn set(body: &'static str, limits: Limits) -> Arc<PluginSet> {
    let guest = Guest::new(&[("lookup", Kind::View, None), ("concat", Kind::Joiner, None)])
        .with("view", body)
        .with("joiner", JOIN_CONCAT);
    let engine = Engine::new().unwrap();
    let compiled = engine.load(&guest.build()).unwrap();
    let spec = PluginSpec { name: "demo".to_owned(), limits, config: "{}".to_owned() };
    let wanted = [("lookup", Kind::View), ("concat", Kind::Joiner)].map(|(function, kind)| Wanted {
        plugin: "demo".into(),
        function: function.into(),
        kind,
    });
    PluginSet::new(&engine, Generation(1), vec![(spec, compiled)], &wanted).unwrap()
}

/// A request for a path.
fn request(path: &str) -> ViewRequest {
    ViewRequest { method: "GET".to_owned(), path: path.to_owned(), query: vec![("a".to_owned(), "b".to_owned())] }
}

/// Status and body of an answer.
fn told(response: ViewResponse) -> (u16, String) {
    (response.status, String::from_utf8(response.body.to_vec()).unwrap())
}

/// Answers with a fixed status and content type from memory.
fn fixed(status: u16, content_type: &str) -> view_types::Response {
    view_types::Response { status, content_type: content_type.to_owned(), body: b"b".to_vec() }
}

#[test]
fn views_answer_from_stores() {
    let pool = ViewPool::new(set(LOOKUP, Limits::default()), Arc::new(Orders), 2);
    let allowed = ["orders".to_owned()];
    let view = FunctionIndex(0);
    for _ in 0..3 {
        let response = pool.answer(view, &allowed, request("/a")).unwrap();
        assert_eq!(response.content_type, "text/plain");
        assert_eq!(told(response), (200, "paid".to_owned()));
        assert_eq!(told(pool.answer(view, &allowed, request("/b")).unwrap()), (404, String::new()));
    }
    assert_eq!(pool.lock().free.len(), 1);
}

#[test]
fn stores_that_are_not_listed_are_not_read() {
    let pool = ViewPool::new(set(LOOKUP, Limits::default()), Arc::new(Orders), 1);
    let (status, text) = told(pool.answer(FunctionIndex(0), &["other".to_owned()], request("/a")).unwrap());
    assert_eq!(status, 500);
    insta::assert_snapshot!(text, @"store 'orders' is not one that the topology lists for this view (listed: other)");
}

#[test]
fn a_view_that_fails_is_replaced() {
    let pool = ViewPool::new(set("unreachable", Limits::default()), Arc::new(Orders), 1);
    for _ in 0..3 {
        let failure = pool.answer(FunctionIndex(0), &[], request("/a")).unwrap_err();
        assert_eq!((failure.kind, &*failure.function), (CallFailureKind::Trap, "lookup"));
    }
    assert_eq!(pool.lock().busy, 0);
}

#[test]
fn a_view_has_its_own_time_limit_and_the_others_wait_for_no_longer() {
    let limits = Limits { view_timeout: Duration::from_millis(200), ..Limits::default() };
    let pool = ViewPool::new(set("(loop $l (br $l)) unreachable", limits), Arc::new(Orders), 1);
    let failures = thread::scope(|scope| {
        let call = || pool.answer(FunctionIndex(0), &[], request("/a")).unwrap_err();
        [scope.spawn(call), scope.spawn(call), scope.spawn(call)].map(|it| it.join().unwrap())
    });
    assert!(failures.iter().all(|failure| failure.kind == CallFailureKind::Timeout), "{failures:?}");
    assert!(failures.iter().any(|failure| failure.reason == "it used more than 200ms of CPU time"), "{failures:?}");
}

#[test]
fn a_busy_pool_says_so() {
    let limits = Limits { view_timeout: Duration::from_millis(1), ..Limits::default() };
    let pool = ViewPool::new(set(LOOKUP, limits), Arc::new(Orders), 1);
    let turn = pool.turn(FunctionIndex(0)).unwrap();
    let failure = pool.answer(FunctionIndex(0), &[], request("/a")).unwrap_err();
    assert_eq!(failure.reason, "all 1 instances for views were busy for 1ms");
    drop(turn);
    assert!(pool.turn(FunctionIndex(0)).is_ok());
}

#[test]
fn a_waiting_call_goes_on_when_an_instance_is_given_back() {
    let limits = Limits { view_timeout: Duration::from_secs(60), ..Limits::default() };
    let pool = ViewPool::new(set(LOOKUP, limits), Arc::new(Orders), 1);
    let (waits, waiting) = mpsc::channel();
    thread::scope(|scope| {
        let turn = pool.turn(FunctionIndex(0)).unwrap();
        let pool = &pool;
        let second = scope.spawn(move || {
            waits.send(()).unwrap();
            pool.answer(FunctionIndex(0), &["orders".to_owned()], request("/a"))
        });
        waiting.recv().unwrap();
        drop(turn);
        assert_eq!(second.join().unwrap().unwrap().status, 200);
    });
}

#[test]
fn other_plugins_answer_after_a_swap() {
    let pool = ViewPool::new(set("unreachable", Limits::default()), Arc::new(Orders), 1);
    assert!(pool.answer(FunctionIndex(0), &[], request("/a")).is_err());
    pool.replace(set(LOOKUP, Limits::default()));
    assert_eq!(pool.answer(FunctionIndex(0), &["orders".to_owned()], request("/a")).unwrap().status, 200);
    pool.replace(set(LOOKUP, Limits::default()));
    assert_eq!(pool.lock().free.len(), 0);
}

#[test]
fn only_views_are_called() {
    let pool = ViewPool::new(set(LOOKUP, Limits::default()), Arc::new(Orders), 1);
    assert_eq!(pool.answer(FunctionIndex(1), &[], request("/a")).unwrap_err().reason, "function 1 is no view");
    assert_eq!(pool.answer(FunctionIndex(7), &[], request("/a")).unwrap_err().reason, "function 7 is no view");
}

#[test]
fn responses_are_checked() {
    for status in [200, 204, 404, 599] {
        assert!(check(fixed(status, "text/plain")).is_ok());
    }
    for status in [0, 100, 199, 600, u16::MAX] {
        assert_eq!(check(fixed(status, "text/plain")), Err(BadResponse::Status(status)));
    }
    for sound in ["text/plain", "application/json; charset=utf-8", "application/vnd.api+json;a=\"b c\""] {
        assert!(check(fixed(200, sound)).is_ok(), "{sound}");
    }
    let long = format!("text/{}", "x".repeat(300));
    for bad in ["", "text", "/", "text/", "text /plain", "text/plain\r\nx: y", "text/pläin", "text/plain;\t", &long] {
        assert!(matches!(check(fixed(200, bad)), Err(BadResponse::ContentType(_))), "{bad}");
    }
}
