//! Messages for the host's log, under the plugin's name.
//!
//! The host bounds their number and size: a message for each record is dropped before long. In native tests they go to
//! standard error.

use crate::bindings::plugin::weir::plugin::log::Level;

/// Logs what only a developer wants to know.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// Logs what an operator may want to know.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Logs what an operator should look at.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Logs what is wrong.
pub fn error(message: &str) {
    write(Level::Error, message);
}

/// Hands a message to the host.
fn write(level: Level, message: &str) {
    if cfg!(target_arch = "wasm32") {
        crate::bindings::plugin::weir::plugin::log::log(level, message);
    } else {
        eprintln!("{level:?}: {message}");
    }
}

/// Sends each panic's message and place to the host's log: the trap that follows tells neither. [`export!`](crate::export)
/// does it; a guest that exports its interfaces by itself calls it when it is described and started.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        // What the host recognises (`wit/`, interface `log`).
        error(&format!("panic: {}", describe(panic)));
    }));
}

/// Message and place of a panic in one line.
fn describe(panic: &std::panic::PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or("a value that is no text");
    panic.location().map_or_else(|| message.to_owned(), |place| format!("{message}, at {place}"))
}
