//! The account of buffered bytes: what is counted, who is refused, who is cut off, and that all of it comes back.

use std::future::poll_fn;

use proptest::prelude::*;
use tokio::time::timeout;

use super::*;

fn of(most: usize) -> &'static Buffers {
    Box::leak(Box::new(Buffers::new(most)))
}

const MIB: usize = 1 << 20;

#[test]
fn a_transfer_counts_for_its_largest_piece_and_never_for_more_than_twice_its_bytes() {
    let buffers = of(100 * MIB);
    let share = Share::of(buffers);
    share.carries_down(Pieces::DOWN, 1000).unwrap();
    assert_eq!(buffers.held(), 2000);
    for _ in 0..100 {
        share.carries_down(Pieces::DOWN, 1000).unwrap();
    }
    assert_eq!(buffers.held(), 11_000);
    share.carries_down(Pieces::DOWN, 60_000).unwrap();
    assert_eq!(buffers.held(), 2 * 161_000);
    for _ in 0..10 {
        share.carries_down(Pieces::DOWN, 60_000).unwrap();
    }
    assert_eq!((buffers.held(), share.held()), (660_000, 660_000));
    drop(share);
    assert_eq!(buffers.held(), 0);
}

#[test]
fn what_the_client_has_taken_counts_no_more() {
    let buffers = of(100 * MIB);
    let share = Share::of(buffers);
    for _ in 0..20 {
        share.carries_down(Pieces::DOWN, 1000).unwrap();
    }
    share.taken(300);
    assert_eq!((buffers.held(), buffers.transfers.load(Relaxed)), (300, 1));
    share.taken(0);
    assert_eq!((buffers.held(), buffers.transfers.load(Relaxed)), (0, 0));
    share.taken(5000);
    assert_eq!(buffers.held(), 0, "nothing is held that was not carried");
    share.carries_down(Pieces::DOWN, 10).unwrap();
    assert_eq!((buffers.held(), buffers.transfers.load(Relaxed)), (11_000, 1), "the next piece counts in full at once");
}

#[test]
fn what_is_kept_of_a_request_for_another_attempt_counts_until_it_is_too_much() {
    let buffers = of(100 * MIB);
    let share = Share::of(buffers);
    for _ in 0..64 {
        share.carries_up(Pieces::UP, 1024).unwrap();
    }
    assert_eq!(buffers.held(), 6 * 1024 + KEPT);
    share.carries_up(Pieces::UP, 1024).unwrap();
    assert_eq!(buffers.held(), 6 * 1024);
    share.clear();
    assert_eq!((buffers.held(), buffers.transfers.load(Relaxed)), (0, 0));
}

#[test]
fn heavy_transfers_are_refused_first_and_light_ones_served_to_the_bound() {
    let buffers = of(8 * MIB);
    let mut heavy = Vec::new();
    loop {
        let share = Share::of(buffers);
        let first = share.carries_down(Pieces::DOWN, 4096).and_then(|()| share.carries_down(Pieces::DOWN, 64 * 1024));
        if first.is_err() {
            break;
        }
        heavy.push(share);
    }
    assert!(buffers.held() > 6 * MIB && buffers.held() <= 7 * MIB, "{}", buffers.held());
    let before = buffers.held();
    let light: Vec<Share> = (0..10).map(|_| Share::of(buffers)).collect();
    for share in &light {
        share.carries_down(Pieces::DOWN, LIGHT).unwrap();
    }
    assert!(buffers.held() > before);
    assert_eq!(light[0].carries_down(Pieces::DOWN, 1), Err(Full), "it is not light any more");
    assert_eq!(buffers.refused(), 2);
    drop(light);
    assert_eq!(buffers.held(), before, "what was refused leaves nothing behind");
}

#[test]
fn an_answer_that_flows_goes_on_where_light_and_heavy_transfers_are_refused() {
    let buffers = of(8 * MIB);
    let flowing = Share::of(buffers);
    for _ in 0..100 {
        flowing.carries_down(Pieces::DOWN, 4000).unwrap();
        flowing.taken(0);
    }
    let fill = |piece: usize| -> Vec<Share> {
        let shares = (0..10_000).map(|_| Share::of(buffers));
        shares.take_while(|share| share.carries_down(Pieces::DOWN, piece).is_ok()).collect()
    };
    let _heavy = fill(64 * 1024);
    let _light = fill(8000);
    assert!(buffers.held() > 7 * MIB && buffers.held() <= 8 * MIB / 16 * 15, "{}", buffers.held());
    for piece in [12, 4000, 20_000] {
        flowing.carries_down(Pieces::DOWN, piece).unwrap();
        flowing.taken(0);
    }
}

#[test]
fn less_is_read_at_once_the_more_is_held() {
    let buffers = of(8 * MIB);
    let share = Share::of(buffers);
    let mut sizes = vec![buffers.read_size()];
    for piece in [MIB, MIB, MIB] {
        share.carries_down(Pieces::DOWN, piece).unwrap();
        sizes.push(buffers.read_size());
    }
    assert_eq!(sizes, [usize::MAX, SMALLER_READ, SMALLEST_READ, SMALLEST_READ]);
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// After how long a stalled transfer is cut off, if it is.
async fn cut(share: &Share) -> Option<Duration> {
    let (mut stall, begun) = (Stall::default(), Instant::now());
    timeout(Duration::from_secs(60), poll_fn(|cx| stall.poll_cut(share, cx))).await.ok().map(|()| begun.elapsed())
}

#[test]
fn a_stalled_transfer_is_cut_off_only_for_others_and_only_above_the_average() {
    paused().block_on(async {
        let buffers = of(4 * MIB);
        let (heavy, small) = (Share::of(buffers), Share::of(buffers));
        heavy.carries_down(Pieces::DOWN, MIB).unwrap();
        small.carries_down(Pieces::DOWN, 1000).unwrap();
        assert_eq!(cut(&heavy).await, None, "there is room");
        heavy.carries_up(Pieces::UP, MIB / 2).unwrap();
        assert_eq!(cut(&small).await, None, "it holds little");
        let after = cut(&heavy).await.unwrap();
        assert!(after >= STALLED && after < STALLED + Duration::from_millis(10), "{after:?}");

        // one that was stalled long before it gets short is found too
        heavy.clear();
        heavy.carries_down(Pieces::DOWN, MIB).unwrap();
        let late = async {
            sleep(Duration::from_secs(10)).await;
            small.carries_down(Pieces::DOWN, MIB / 2).unwrap();
        };
        let (after, ()) = tokio::join!(cut(&heavy), late);
        assert!(after.is_some_and(|after| after < Duration::from_secs(12)), "{after:?}");
    });
}

#[test]
fn a_heavy_body_waits_for_room_and_is_refused_when_none_comes() {
    paused().block_on(async {
        let buffers = of(4 * MIB);
        let share = Share::of(buffers);
        share.carries_down(Pieces::DOWN, 7 * MIB / 4).unwrap();
        assert_eq!(buffers.room(LIGHT as u64).await, Ok(()));
        assert_eq!(buffers.room(1 << 30).await, Err(Full));
        let (room, ()) = tokio::join!(buffers.room(1 << 30), async {
            sleep(WAIT / 2).await;
            share.clear();
        });
        assert_eq!((room, buffers.refused()), (Ok(()), 1));
    });
}

proptest! {
    #[test]
    fn the_count_is_the_sum_of_all_shares_never_above_the_bound_and_ends_at_nothing(
        most in 10_000usize..4_000_000,
        steps in prop::collection::vec((0usize..8, 0usize..70_000, 0u8..8), 1..200),
    ) {
        let buffers = of(most);
        let shares: Vec<Share> = (0..8).map(|_| Share::of(buffers)).collect();
        for (which, bytes, what) in steps {
            let share = &shares[which];
            match what {
                0 => share.clear(),
                1..=2 => drop(share.carries_up(Pieces::UP, bytes)),
                3 => share.taken(bytes),
                _ => drop(share.carries_down(Pieces::DOWN, bytes)),
            }
            prop_assert_eq!(buffers.held(), shares.iter().map(Share::held).sum::<usize>());
            prop_assert_eq!(buffers.transfers.load(Relaxed), shares.iter().filter(|share| share.held() > 0).count());
            prop_assert!(buffers.held() <= most);
        }
        drop(shares);
        prop_assert_eq!((buffers.held(), buffers.transfers.load(Relaxed)), (0, 0));
    }
}
