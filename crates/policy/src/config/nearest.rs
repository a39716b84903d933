//! What an operator may have meant by an unknown word.

/// The known word nearest to `word`, if one is near enough to have been meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // a third of the word may be wrong; whole-word comparisons of long texts help nobody and cost quadratic time
    let length = word.chars().count();
    if length > 64 {
        return None;
    }
    let most = (length / 3).max(1);
    let word = word.to_lowercase();
    known
        .into_iter()
        // a comparison costs a thousand times as much as a look at the lengths, and a file may have a thousand names
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= most)
        .map(|candidate| (strsim::damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= most && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_near() {
        let known = ["burst", "rate", "key", "memory"];
        assert_eq!(nearest("brust", known), Some("burst"));
        assert_eq!(nearest("Rate", known), Some("rate"));
        assert_eq!(nearest("keys", known), Some("key"));
        assert_eq!(nearest("origin", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"k".repeat(1_000), known), None);
    }
}
