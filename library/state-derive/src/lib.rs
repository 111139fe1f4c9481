//! The macros of `stillframe-state`: `#[record]` and `#[derive(State)]`. Their documentation is
//! where they are used, in that crate.

#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens, quote};
use syn::{Data, DeriveInput, Error, Field, Fields, Generics, ItemStruct, Member};

/// See `stillframe_state::record`.
#[proc_macro_attribute]
pub fn record(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = Tokens::from(arguments);
    let item = syn::parse_macro_input!(item as ItemStruct);
    given(record_of(&arguments, &item))
}

/// See `stillframe_state::State`.
#[proc_macro_derive(State)]
pub fn state(item: TokenStream) -> TokenStream {
    let item = syn::parse_macro_input!(item as DeriveInput);
    given(state_of(&item))
}

fn given(made: Result<Tokens, Error>) -> TokenStream {
    made.unwrap_or_else(|error| error.to_compile_error()).into()
}

fn record_of(arguments: &Tokens, item: &ItemStruct) -> Result<Tokens, Error> {
    if !arguments.is_empty() {
        return Err(Error::new_spanned(arguments, "`#[record]` takes no arguments"));
    }
    refuse_generics(&item.generics, "a record")?;
    if let Some(repr) = item.attrs.iter().find(|attribute| attribute.path().is_ident("repr")) {
        return Err(Error::new_spanned(repr, "`#[record]` makes the struct `repr(C)` itself"));
    }
    let name = &item.ident;
    let fields = fields_of(&item.fields).enumerate().map(|(index, (name, field))| {
        let ty = &field.ty;
        let member = field.ident.clone().map_or_else(|| Member::from(index), Member::from);
        quote! {
            ::stillframe_state::Field {
                name: ::std::string::String::from(#name),
                offset: ::core::mem::offset_of!(Self, #member),
                shape: <#ty as ::stillframe_state::Record>::shape(),
            }
        }
    });
    Ok(quote! {
        #[derive(
            ::core::clone::Clone,
            ::core::marker::Copy,
            ::stillframe_state::zerocopy::FromBytes,
            ::stillframe_state::zerocopy::IntoBytes,
            ::stillframe_state::zerocopy::Immutable,
        )]
        #[zerocopy(crate = "::stillframe_state::zerocopy")]
        #[repr(C)]
        #item

        impl ::stillframe_state::Record for #name {
            fn shape() -> ::stillframe_state::Shape {
                ::stillframe_state::Shape::Struct(::std::vec![#(#fields),*])
            }
        }
    })
}

fn state_of(item: &DeriveInput) -> Result<Tokens, Error> {
    refuse_generics(&item.generics, "a state")?;
    let Data::Struct(data) = &item.data else {
        return Err(Error::new_spanned(&item.ident, "a state is a struct: each field is a place"));
    };
    let fields = match &data.fields {
        Fields::Named(fields) if !fields.named.is_empty() => &data.fields,
        _ => {
            let message = "a state is a struct with named fields, of which each is a place";
            return Err(Error::new_spanned(&item.ident, message));
        }
    };
    let name = &item.ident;
    let placed = fields_of(fields).map(|(name, field)| {
        let ident = &field.ident;
        quote!(#ident: layout.field(#name))
    });
    Ok(quote! {
        impl ::stillframe_state::State for #name {
            fn lay_out(layout: &mut ::stillframe_state::Layout) -> Self {
                layout.group(|layout| Self { #(#placed),* })
            }
        }
    })
}

/// Names and fields; a field without a name has its number.
fn fields_of(fields: &Fields) -> impl Iterator<Item = (String, &Field)> {
    fields.iter().enumerate().map(|(index, field)| {
        let name = field.ident.as_ref().map_or_else(|| index.to_string(), ToString::to_string);
        (name, field)
    })
}

fn refuse_generics(generics: &Generics, what: &str) -> Result<(), Error> {
    if generics.params.is_empty() {
        return Ok(());
    }
    let message = format!("{what} has no generic parameters: its layout is that of one type");
    Err(Error::new_spanned(generics.to_token_stream(), message))
}
