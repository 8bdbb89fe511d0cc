//! What is being done, on stderr: lines, and a bar where the terminal draws one.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::screen::Screen;

/// How often a line tells the progress where there are no bars.
const LINE: Duration = Duration::from_secs(5);
/// How a bar looks.
const TEMPLATE: &str = "     {msg:34} [{bar:30}] {percent:>3} %  {pos}/{len}";

/// Tells what is being done.
#[derive(Clone, Debug)]
pub(super) struct Narration {
    /// Where.
    screen: Screen,
}

impl Narration {
    /// On this screen.
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen }
    }

    /// Writes lines, unless the user wants quiet.
    pub(super) fn say(&self, lines: &str) {
        if !self.screen.is_quiet() {
            // Nobody is left to tell if stderr is gone.
            let _ = self.screen.write(format!("{lines}\n").as_bytes());
        }
    }

    /// Shows how far something is.
    pub(super) fn progress(&self, what: &str, total: u64) -> Steps<'_> {
        let bar = self.screen.bars().map(|bars| {
            let bar = bars.add(ProgressBar::new(total));
            bar.set_style(style());
            bar.set_message(what.to_owned());
            bar
        });
        Steps { narration: self, what: what.to_owned(), total, bar, told: Instant::now() }
    }
}

/// Something of known size that is under way.
pub(super) struct Steps<'a> {
    /// Where lines go.
    narration: &'a Narration,
    /// What is being counted.
    what: String,
    /// How many there are.
    total: u64,
    /// The bar, if the terminal draws one.
    bar: Option<ProgressBar>,
    /// When a line was written last.
    told: Instant,
}

impl Steps<'_> {
    /// So many are done.
    pub(super) fn show(&mut self, done: u64) {
        match &self.bar {
            Some(bar) => bar.set_position(done),
            None if done > 0 && self.told.elapsed() >= LINE => {
                self.told = Instant::now();
                let Self { what, total, .. } = self;
                self.narration.say(&format!("     {what}: {} of {}", number(done), number(*total)));
            }
            None => {}
        }
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The style of bars.
fn style() -> ProgressStyle {
    ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

/// A number as people write it: 24,000.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let numbers = [0, 12, 999, 1_000, 24_000, 1_234_567].map(number);
        assert_eq!(numbers, ["0", "12", "999", "1,000", "24,000", "1,234,567"]);
    }

    #[test]
    fn the_bars_template_is_one() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
