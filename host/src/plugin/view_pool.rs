//! Instances that answer query routes: bounded in number, away from the stream threads' own.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::bindings::view_types;
use super::description::Kind;
use super::imports::StoreAccess;
use super::instance::{Failure, Instance};
use super::set::{Plugin, PluginSet, Resolved};
use crate::model::{CallFailure, CallFailureKind, FunctionIndex};

/// Longest content type, in bytes.
const MAX_CONTENT_TYPE: usize = 255;

/// Stores that views read: the last commit of this instance.
pub trait ViewStores: Send + Sync {
    /// The value under a key. An error is for the guest: no such store, or it is not on this instance.
    fn get(&self, store: &str, key: &[u8]) -> Result<Option<Bytes>, String>;

    /// How many entries the store holds on this instance.
    fn count(&self, store: &str) -> Result<u64, String>;
}

/// A request to a query route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewRequest {
    /// HTTP method.
    pub method: String,
    /// Path of the route.
    pub path: String,
    /// Decoded names and values, in the order of the query string.
    pub query: Vec<(String, String)>,
}

/// A plugin's answer, checked: it can be sent as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewResponse {
    /// HTTP status, 200 to 599.
    pub status: u16,
    /// Content type: visible ASCII, `type/subtype` and parameters.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

/// At most `size` instances that answer at a time. Calls block: not for async threads.
pub struct ViewPool {
    /// What is free and what is not. Locked to take and to give back an instance, never during a call.
    pool: Mutex<Pool>,
    /// Told when an instance is given back.
    given_back: Condvar,
    /// What views read.
    stores: Arc<dyn ViewStores>,
    /// Most instances at a time.
    size: usize,
}

/// The instances that are not in a call.
struct Pool {
    /// The active plugins.
    set: Arc<PluginSet>,
    /// Free instances of that set, with their plugin's place in it; the most recently used last.
    free: Vec<(usize, Box<Instance>)>,
    /// How many are in a call.
    busy: usize,
}

impl ViewPool {
    /// No instance yet; at least one is allowed.
    pub fn new(set: Arc<PluginSet>, stores: Arc<dyn ViewStores>, size: usize) -> Self {
        let pool = Mutex::new(Pool { set, free: Vec::new(), busy: 0 });
        Self { pool, given_back: Condvar::new(), stores, size: size.max(1) }
    }

    /// Answers with other plugins from the next call on; calls that run end with the old ones.
    pub fn replace(&self, set: Arc<PluginSet>) {
        let mut pool = self.lock();
        pool.set = set;
        pool.free.clear();
    }

    /// Calls a view, which may read the stores of `allowed`. Waits for a free instance as long as a call may take.
    pub fn answer(
        &self,
        function: FunctionIndex,
        allowed: &[String],
        request: ViewRequest,
    ) -> Result<ViewResponse, CallFailure> {
        let mut turn = self.turn(function)?;
        let set = Arc::clone(&turn.set);
        turn.answer(function, allowed, request).map_err(|failure| set.call_failure(function, failure))
    }

    /// Waits until one more call may run.
    fn turn(&self, function: FunctionIndex) -> Result<Turn<'_>, CallFailure> {
        let pool = self.lock();
        let patience = plugin_of(&pool.set, function).map_or(Duration::ZERO, |(_, it)| it.limits().view_timeout);
        let (mut pool, _) = self
            .given_back
            .wait_timeout_while(pool, patience, |pool| pool.busy >= self.size)
            .unwrap_or_else(PoisonError::into_inner);
        if pool.busy >= self.size {
            let reason = format!("all {} instances for views were busy for {patience:?}", self.size);
            return Err(pool.set.call_failure(function, Failure { kind: CallFailureKind::Timeout, reason }));
        }
        let wanted = plugin_of(&pool.set, function).map(|(resolved, _)| resolved.plugin);
        let at = pool.free.iter().rposition(|(plugin, _)| Some(*plugin) == wanted);
        let instance = at.map(|at| pool.free.remove(at).1);
        if instance.is_none() && pool.free.len() + pool.busy >= self.size {
            // Another plugin's instance makes room: the one unused for longest.
            pool.free.remove(0);
        }
        pool.busy += 1;
        Ok(Turn { pool: self, set: Arc::clone(&pool.set), instance })
    }

    /// The pool; a panic elsewhere leaves nothing half done in it.
    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A view and its plugin; none if the function is no view.
fn plugin_of(set: &PluginSet, function: FunctionIndex) -> Option<(&Resolved, &Plugin)> {
    let resolved = set.resolved(function).filter(|resolved| resolved.kind == Kind::View)?;
    Some((resolved, set.plugin(resolved.plugin)?))
}

/// One call's place in the pool; given back when dropped, whatever became of the call.
struct Turn<'a> {
    /// Where it belongs.
    pool: &'a ViewPool,
    /// The set that was active when it began.
    set: Arc<PluginSet>,
    /// A free instance of the plugin that is called, if there was one.
    instance: Option<Box<Instance>>,
}

impl Turn<'_> {
    /// Calls the view and checks its answer; if both succeed, the instance goes back to the pool.
    fn answer(
        &mut self,
        function: FunctionIndex,
        allowed: &[String],
        request: ViewRequest,
    ) -> Result<ViewResponse, Failure> {
        let Some((resolved, plugin)) = plugin_of(&self.set, function) else {
            let reason = format!("function {} is no view", function.0);
            return Err(Failure { kind: CallFailureKind::Start, reason });
        };
        let ViewRequest { method, path, query } = request;
        let request = view_types::Request { method, path, query };
        let mut instance = match self.instance.take() {
            Some(instance) => instance,
            None => plugin.start()?,
        };
        instance.host_mut().access =
            Some(StoreAccess { stores: Arc::clone(&self.pool.stores), allowed: allowed.to_vec() });
        let (mut instance, response) = instance.call(plugin.limits().view_timeout, |exports, store| {
            exports.view()?.call_answer(store, resolved.id, &request)
        })?;
        instance.host_mut().access = None;
        let response = check(response).map_err(Failure::answer)?;
        let mut pool = self.pool.lock();
        // Not after a swap: the instance is of the old set.
        if Arc::ptr_eq(&pool.set, &self.set) && !instance.has_outgrown() {
            pool.free.push((resolved.plugin, instance));
        }
        Ok(response)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pool.lock().busy -= 1;
        self.pool.given_back.notify_one();
    }
}

/// What is wrong with a view's response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum BadResponse {
    /// Informational, or no HTTP status.
    #[error("it answers with status {0}; a view answers with 200 to 599")]
    Status(u16),
    /// No content type that HTTP can carry.
    #[error("it answers with content type {0:?}; it must be like 'text/plain; charset=utf-8'")]
    ContentType(String),
}

/// Takes over a view's response. Its size is bounded by what a guest may hand over.
fn check(response: view_types::Response) -> Result<ViewResponse, BadResponse> {
    let view_types::Response { status, content_type, body } = response;
    if !(200..=599).contains(&status) {
        return Err(BadResponse::Status(status));
    }
    if !is_content_type(&content_type) {
        return Err(BadResponse::ContentType(content_type.chars().take(MAX_CONTENT_TYPE).collect()));
    }
    Ok(ViewResponse { status, content_type, body: Bytes::from(body) })
}

/// Whether a text is `type/subtype` with or without parameters, and safe in a header.
fn is_content_type(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    text.len() <= MAX_CONTENT_TYPE
        && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
        && essence.split_once('/').is_some_and(|(main, sub)| token(main) && token(sub))
}

#[cfg(test)]
mod tests;
