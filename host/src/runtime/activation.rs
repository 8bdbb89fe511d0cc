//! Hands activated plugins to all that run them.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use bytes::Bytes;

use crate::plan::VIEW_INSTANCES;
use crate::plugin::{PluginSet, ViewPool, ViewStores};
use crate::view::Catalog;

use super::edge::Plugins;
use super::event::Event;
use super::instance::Instance;

/// The active plugins, and who must hear of others.
pub(super) struct Activation {
    /// The latest set.
    current: Mutex<Option<Arc<PluginSet>>>,
    /// Told of each new set, once it is there.
    instance: OnceLock<Weak<Instance>>,
    /// Answers views, from the first set on.
    views: OnceLock<Arc<ViewPool>>,
    /// What views read.
    catalog: Arc<Catalog>,
}

impl Activation {
    /// Nothing active yet.
    pub(super) fn new(catalog: Arc<Catalog>) -> Arc<Self> {
        Arc::new(Self { current: Mutex::new(None), instance: OnceLock::new(), views: OnceLock::new(), catalog })
    }

    /// The active set.
    pub(super) fn current(&self) -> Option<Arc<PluginSet>> {
        self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// The pool that answers views, when plugins are there.
    pub(super) fn views(&self) -> Option<Arc<ViewPool>> {
        self.views.get().cloned()
    }

    /// A set became active: stream threads swap at their next commit, views with their next request.
    pub(super) fn activate(&self, set: Arc<PluginSet>) {
        *self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Arc::clone(&set));
        let stores: Arc<dyn ViewStores> = Arc::new(Stores(Arc::clone(&self.catalog)));
        let pool = self.views.get_or_init(|| Arc::new(ViewPool::new(Arc::clone(&set), stores, VIEW_INSTANCES)));
        pool.replace(Arc::clone(&set));
        if let Some(instance) = self.instance.get().and_then(Weak::upgrade) {
            Self::tell(&instance, &set);
        }
    }

    /// Tells this instance from now on, and of what is active now.
    pub(super) fn attach(&self, instance: &Arc<Instance>) {
        let _only_once = self.instance.set(Arc::downgrade(instance));
        if let Some(set) = self.current() {
            Self::tell(instance, &set);
        }
    }

    /// Tells the stream threads.
    fn tell(instance: &Instance, set: &Arc<PluginSet>) {
        let set = Arc::clone(set) as Arc<dyn Plugins>;
        *instance.plugins.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Arc::clone(&set));
        for mailbox in instance.mailboxes.get().into_iter().flatten() {
            mailbox.send(Event::Swap(Arc::clone(&set)));
        }
    }
}

/// Stores as views see them.
struct Stores(Arc<Catalog>);

impl ViewStores for Stores {
    fn get(&self, store: &str, key: &[u8]) -> Result<Option<Bytes>, String> {
        self.0.get(store, key).map(|entry| entry.map(|entry| entry.value)).map_err(|error| error.to_string())
    }

    fn count(&self, store: &str) -> Result<u64, String> {
        let stores = self.0.list();
        stores
            .iter()
            .find(|status| status.store == store)
            .map(|status| status.entries)
            .ok_or_else(|| format!("there is no store {store}"))
    }
}
