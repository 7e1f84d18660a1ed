use super::*;

#[test]
fn the_group_is_found() {
    let text = "4:memory:/v1\n0::/user.slice/session.scope\n";
    assert_eq!(group_of(text), Some("/user.slice/session.scope"));
    assert_eq!(group_of("0::/\n"), Some(""));
    assert_eq!(group_of("4:memory:/v1\n"), None);
}

#[test]
fn events_at_both_limits_count() {
    let text = "low 100\nhigh 7\nmax 2\noom 50\noom_kill 50\noom_group_kill 50\n";
    assert_eq!(events(text), 9);
    assert_eq!(events(""), 0);
}

#[test]
fn the_total_is_found() {
    let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 total=9\n";
    assert_eq!(total_us(text), Some(1234));
    assert_eq!(total_us(""), None);
    assert_eq!(total_us("full total=9\n"), None);
}
