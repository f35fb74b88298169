//! Enums whose values have names.

/// Declares an enum whose values have names, for texts and files. It gets the array `ALL` of all values in their order,
/// the function `name`, and `Display`, which writes the name. [`choices!`](crate::choices) declares values of settings.
///
/// ```
/// netrig_core::named! {
///     #[derive(Clone, Copy)]
///     enum Colour {
///         Red = "red",
///         DeepBlue = "deep blue",
///     }
/// }
/// assert_eq!(Colour::ALL.map(Colour::name), ["red", "deep blue"]);
/// assert_eq!(Colour::DeepBlue.to_string(), "deep blue");
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        $scope:vis enum $type:ident {
            $($(#[$meta:meta])* $value:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        $scope enum $type {
            $($(#[$meta])* $value,)+
        }

        impl $type {
            /// All values.
            $scope const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// The name in texts and files.
            $scope const fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
