//! "Did you mean …?"

/// The candidate nearest to `word`, if one is near enough to be a slip of the pen. Case, and `-` for `_`, don't count.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normal(word);
    let slips = match word.len() {
        0..=3 => 1,
        4..=8 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= slips)
        .map(|candidate| (distance(&word, &normal(candidate)), candidate))
        .filter(|(distance, _)| *distance <= slips && *distance < word.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `word` without what people mix up.
fn normal(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

/// How many characters must be added, removed or replaced to make one of the other (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    // One row of the matrix: the distances of all beginnings of `right` to the part of `left` seen so far.
    let mut row: Vec<usize> = (0..=right.chars().count()).collect();
    for (index, a) in left.chars().enumerate() {
        let mut diagonal = index;
        let mut last = index + 1;
        if let Some(first) = row.first_mut() {
            *first = last;
        }
        for (cell, b) in row.iter_mut().skip(1).zip(right.chars()) {
            let next = (diagonal + usize::from(a != b)).min(last + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = next;
            last = next;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        for (left, right, edits) in [("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("same", "same", 0)] {
            assert_eq!(distance(left, right), edits, "{left} {right}");
        }
    }

    #[test]
    fn suggests_only_what_is_near() {
        let keys = ["threads", "guarantee", "id"];
        assert_eq!(nearest("threds", keys), Some("threads"));
        assert_eq!(nearest("GUARANTEE", keys), Some("guarantee"));
        assert_eq!(nearest("ids", keys), Some("id"));
        assert_eq!(nearest("x", keys), None);
        assert_eq!(nearest("partitions", keys), None);
        assert_eq!(nearest("dead-letters", ["dead_letters"]), Some("dead_letters"));
    }
}
