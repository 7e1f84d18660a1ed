//! What layers use to announce their handlers, and in them.

/// Runs a statement when the object is loaded, before there are threads. Not under Miri, which
/// knows few of the calls that are made then: first uses do the same.
#[macro_export]
macro_rules! run_when_loaded {
    ($statement:expr) => {
        const _: () = {
            #[unsafe(link_section = ".text.sheaves_load")]
            extern "C" fn constructor() {
                $statement;
            }
            #[used]
            #[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
            static CONSTRUCTOR: extern "C" fn() = constructor;
        };
    };
}

/// [`fork::announce`](crate::fork::announce) when the object is loaded.
///
/// A layer that announced itself at its first use could be doing so, with its locks held, when
/// another thread forks: the child would wait for these locks for ever.
#[macro_export]
macro_rules! announce_when_loaded {
    ($layer:ident, $handlers:expr) => {
        $crate::run_when_loaded!($crate::fork::announce($crate::fork::Layer::$layer, $handlers));
    };
}

/// Defines the handlers `prepare` and `release` for locks, which are taken in this order.
#[macro_export]
macro_rules! fork_locks {
    ($($lock:expr),+) => {
        fn prepare() {
            $($lock.acquire();)+
        }

        fn release() {
            // SAFETY: taken by `prepare`, in the thread that forked, without a guard.
            $(unsafe { $lock.release() };)+
        }
    };
}

/// For handlers in a child: stores a value in an atomic word, if another one is there. A store
/// copies the page.
#[macro_export]
macro_rules! restart_word {
    ($word:expr, $value:expr) => {{
        let (word, value) = (&$word, $value);
        // Relaxed, both: the child has one thread.
        if word.load(::core::sync::atomic::Ordering::Relaxed) != value {
            word.store(value, ::core::sync::atomic::Ordering::Relaxed);
        }
    }};
}
