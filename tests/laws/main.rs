//! Laws that every kind of limit keeps, tested through the engine as a face would drive it.

mod allocation;
mod answer_costs;
mod book;
mod calendar;
mod corners;
mod estimate;
mod kinds;
mod later;
mod lattice;
mod limits;
mod reload;
mod several;
mod shared;
mod tiers;
mod together;
mod waiting;
