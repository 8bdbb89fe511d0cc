//! The host's integration tests, all in one binary, so that the dependencies are linked once.

#[cfg(test)]
mod fault_points;
#[cfg(test)]
mod layering;
#[cfg(test)]
mod plugin;
#[cfg(test)]
mod registry;
