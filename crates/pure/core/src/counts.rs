//! Structures of counts that are added up.

/// Declares a structure of counts that can be added up: `all += &part` adds each count. A count that is declared with
/// `as max` becomes the maximum of both instead.
///
/// ```
/// netrig_core::counts! {
///     #[derive(Default)]
///     struct Drops {
///         count: u64,
///         longest_s: f64 as max,
///     }
/// }
/// let mut all = Drops { count: 1, longest_s: 0.5 };
/// all += &Drops { count: 2, longest_s: 0.25 };
/// assert_eq!((all.count, all.longest_s), (3, 0.5));
/// ```
#[macro_export]
macro_rules! counts {
    (
        $(#[$about:meta])*
        $scope:vis struct $name:ident {
            $($(#[$meta:meta])* $access:vis $count:ident: $type:ty $(as $greatest:ident)?,)*
        }
    ) => {
        $(#[$about])*
        $scope struct $name {
            $($(#[$meta])* $access $count: $type,)*
        }

        impl ::std::ops::AddAssign<&Self> for $name {
            fn add_assign(&mut self, other: &Self) {
                $($crate::counts!(@add self other $count $($greatest)?);)*
            }
        }
    };
    (@add $own:ident $other:ident $count:ident) => { $own.$count += &$other.$count };
    (@add $own:ident $other:ident $count:ident max) => { $own.$count = $own.$count.max($other.$count) };
}
