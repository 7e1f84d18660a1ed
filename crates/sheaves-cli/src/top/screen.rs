//! The tables on a terminal.
//!
//! The terminal is restored however the command ends: at `q`, at an error, at a panic (by
//! ratatui's hook), and at a signal, which a thread of its own receives.

use core::time::Duration;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use clap::ValueEnum as _;
use nix::sys::signal::{SigSet, Signal};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{List, ListState, Paragraph};
use ratatui::{DefaultTerminal, Frame};

use super::samples::Samples;
use super::table::Table;
use crate::ask::Asked;
use crate::command_line::Sort;
use crate::refusal::Refusal;

/// Held while something is drawn, and for good once the terminal is restored for a signal.
static DRAWING: Mutex<()> = Mutex::new(());

/// Shows a process, or all to choose one from, until `q`.
pub(crate) fn show(pid: Option<u32>, period: Duration, sort: Sort) -> Result<ExitCode, Refusal> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Refusal::unavailable("top needs a terminal: use --once or --json without one"));
    }
    // A process that does not answer is refused before the screen changes.
    let asked = pid.map(Asked::attach).transpose()?;
    let is_chosen = asked.is_some();
    let failed = |error: io::Error| Refusal::output(format!("terminal: {error}"));
    restore_at_signals().map_err(|error| failed(error.into()))?;
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let state = ListState::default().with_selected(Some(0));
    let samples = Samples::default();
    let mut view = View { asked, is_chosen, sort, state, selected: None, samples };
    let done = view.run(&mut terminal, period);
    ratatui::restore();
    done.map(|()| ExitCode::SUCCESS)
}

/// Blocks the signals that end a command, and starts a thread that receives them.
fn restore_at_signals() -> nix::Result<()> {
    let signals: SigSet =
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT].into_iter().collect();
    signals.thread_block()?;
    thread::spawn(move || {
        let signal = signals.wait().map_or(0, |signal| signal as i32);
        let _drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
        ratatui::restore();
        std::process::exit(128 + signal);
    });
    Ok(())
}

struct View {
    /// The heaps of the process that is shown; all processes if there is none.
    asked: Option<Vec<Asked>>,
    /// It is the one of the command line: there is no way back to all.
    is_chosen: bool,
    sort: Sort,
    state: ListState,
    /// The process that is selected among all, which may move in the list.
    selected: Option<u32>,
    samples: Samples,
}

/// What a key does.
enum Step {
    Quit,
    Renew,
    Draw,
}

impl View {
    fn run(&mut self, terminal: &mut DefaultTerminal, period: Duration) -> Result<(), Refusal> {
        let failed = |error: io::Error| Refusal::output(format!("terminal: {error}"));
        self.renew()?;
        let mut renewed = Instant::now();
        loop {
            let table = self.samples.table(self.asked.is_some(), self.sort);
            self.follow(&table);
            {
                let _drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
                terminal.draw(|frame| self.draw(frame, &table)).map_err(failed)?;
            }
            let left = period.saturating_sub(renewed.elapsed());
            let mut step = Step::Renew;
            if event::poll(left).map_err(failed)? {
                step = self.take(&event::read().map_err(failed)?, &table)?;
            }
            match step {
                Step::Quit => return Ok(()),
                Step::Draw => {}
                Step::Renew => {
                    self.renew()?;
                    renewed = Instant::now();
                }
            }
        }
    }

    /// Asks again. If a process that was chosen from all has ended, all are shown again.
    fn renew(&mut self) -> Result<(), Refusal> {
        let renewed = self.samples.renew(self.asked.as_mut());
        if renewed.is_err() && !self.is_chosen && self.asked.is_some() {
            return self.show_all();
        }
        renewed
    }

    /// Keeps the selection on its process, wherever it is in the list now.
    fn follow(&mut self, table: &Table) {
        let at = |state: &ListState| state.selected().and_then(|index| table.pids.get(index));
        if self.selected.is_some() && at(&self.state) != self.selected.as_ref() {
            let place = table.pids.iter().position(|pid| Some(*pid) == self.selected);
            self.state.select(place.or(self.state.selected()));
        }
        self.selected = at(&self.state).copied();
    }

    fn show_all(&mut self) -> Result<(), Refusal> {
        (self.asked, self.samples) = (None, Samples::default());
        self.samples.renew(None)
    }

    fn take(&mut self, event: &Event, table: &Table) -> Result<Step, Refusal> {
        let Event::Key(key) = event else { return Ok(Step::Draw) };
        if key.kind == KeyEventKind::Release {
            return Ok(Step::Draw);
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if !matches!(key.code, KeyCode::Enter) {
            self.selected = None;
        }
        match key.code {
            KeyCode::Char('q') => return Ok(Step::Quit),
            KeyCode::Char('c') if is_control => return Ok(Step::Quit),
            KeyCode::Esc if !self.is_chosen && self.asked.is_some() => self.show_all()?,
            KeyCode::Up | KeyCode::Char('k') => self.state.select_previous(),
            KeyCode::Down | KeyCode::Char('j') => self.state.select_next(),
            KeyCode::PageUp => self.state.scroll_up_by(20),
            KeyCode::PageDown => self.state.scroll_down_by(20),
            KeyCode::Char(' ') => return Ok(Step::Renew),
            KeyCode::Enter => {
                let chosen = self.state.selected().and_then(|index| table.pids.get(index));
                // One that has ended meanwhile cannot be chosen.
                if let Some(asked) = chosen.and_then(|pid| Asked::attach(*pid).ok()) {
                    (self.asked, self.samples) = (Some(asked), Samples::default());
                    return Ok(Step::Renew);
                }
            }
            KeyCode::Char(key) => {
                let key = key.to_string();
                self.sort = Sort::from_str(&key, false).unwrap_or(self.sort);
            }
            _ => {}
        }
        Ok(Step::Draw)
    }

    fn draw(&mut self, frame: &mut Frame<'_>, table: &Table) {
        let head = table.lines.len() as u16;
        let areas = Layout::vertical([
            Constraint::Length(head),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ]);
        let [lines, names, rows, help] = areas.areas(frame.area());
        let text = table.lines.iter().map(|line| Line::from(line.as_str()));
        frame.render_widget(Paragraph::new(text.collect::<Vec<_>>()), lines);
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        frame.render_widget(Paragraph::new(table.names()).style(reversed), names);
        let list = List::new(table.rows.iter().map(|row| table.line(row)));
        let list = list.highlight_style(Style::new().add_modifier(Modifier::BOLD));
        frame.render_stateful_widget(list, rows, &mut self.state);
        let keys = match self.asked {
            None => "q quit  up, down, enter choose  space renew",
            Some(_) => "q quit  sort by a b c f l n o p r s u  space renew  esc all",
        };
        frame.render_widget(Paragraph::new(keys), help);
    }
}
