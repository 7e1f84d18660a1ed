use super::*;

#[test]
fn counts_are_out_of_their_place_before_they_are_given_back() {
    let owner = Events::none();
    owner.make();
    let mut was_there = true;
    owner.end_with(|counts| {
        was_there = owner.get().is_some();
        drop(counts);
    });
    assert!(!was_there, "a child that forks now gives them back a second time");
    owner.end_with(|_| panic!("given back twice"));
}
