// Script of the console. All pages work without it. It loads the live parts of a page again after a change, adds keys to lists,
// submits filters at once, and copies texts.
'use strict';

let leaving = false; // a form is being sent

// refresh replaces every element with the attribute data-live by that of a new copy of the page, unless a person is using it. A page that is
// being left is not loaded again: the form may have removed it.
async function refresh() {
  if (leaving) return;
  const reply = await fetch(location.href, { headers: { 'X-Live': '1' } }).catch(() => null);
  if (!reply || !reply.ok) return;
  const page = new DOMParser().parseFromString(await reply.text(), 'text/html');
  for (const old of document.querySelectorAll('[data-live][id]')) {
    const now = page.getElementById(old.id);
    if (!now || old.contains(document.activeElement) || old.querySelector('details[open], input:checked') || old.innerHTML === now.innerHTML) continue;
    old.replaceWith(now);
  }
}

// live reloads the live parts after events of the server, at most twice a second and not in a hidden tab, and connects again after
// the connection was lost.
function live() {
  if (!document.querySelector('main [data-live]')) return;
  const book = location.pathname.startsWith('/books/') ? document.querySelector('main').dataset.book : ''; // other pages show all
  let timer = 0, missed = false;
  const events = new EventSource('/live?book=' + encodeURIComponent(book));
  const show = (state) => { document.documentElement.dataset.connection = state; };
  const soon = () => {
    missed = document.hidden;
    if (!missed && !timer) timer = setTimeout(() => { timer = 0; refresh(); }, 500);
  };
  document.addEventListener('visibilitychange', () => { if (missed) soon(); });
  events.onopen = () => { show('open'); soon(); };
  events.onerror = () => {
    show('lost');
    if (events.readyState === EventSource.CLOSED) setTimeout(live, 3000);
  };
  for (const name of ['version', 'executions', 'dead', 'lag']) events.addEventListener(name, soon);
  events.addEventListener('version', meanwhile);
}

// meanwhile shows the change of another person, which the page may reload under the hands of this one.
function meanwhile(event) {
  const change = JSON.parse(event.data), note = document.getElementById('meanwhile');
  if (!note || change.author === 'curator' || change.author === note.dataset.me) return;
  const link = document.createElement('a');
  link.href = `/books/${encodeURIComponent(change.book)}/versions/${change.version}`;
  link.textContent = `Version ${change.version}`;
  note.replaceChildren(`Meanwhile ${change.author}: ${change.summary}. `, link);
  note.hidden = false;
}

// keys moves through a list with j and k, and presses the button of the current item with its data-key.
function keys() {
  const items = () => [...document.querySelectorAll('[data-item]')];
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input, textarea, select')) return;
    const all = items();
    if (!all.length) return;
    const at = all.findIndex((item) => item.contains(document.activeElement));
    if (e.key === 'j' || e.key === 'k') {
      const to = all[Math.max(0, Math.min(all.length - 1, at + (e.key === 'j' ? 1 : -1)))];
      to.focus();
      to.scrollIntoView({ block: 'nearest' });
      e.preventDefault();
    } else if (at >= 0) {
      const button = all[at].querySelector(`[data-key="${CSS.escape(e.key)}"]`);
      if (!button) return;
      e.preventDefault();
      if (button.type === 'submit') sessionStorage.setItem('item', at); // the next page has the next item at this place
      button.click();
    }
  });
  const at = sessionStorage.getItem('item'), all = items();
  sessionStorage.removeItem('item');
  if (at !== null && all.length) all[Math.min(Number(at), all.length - 1)].focus();
}

// filters submits a form with data-auto as soon as a selection changes.
function filters() {
  for (const form of document.querySelectorAll('form[data-auto]')) {
    form.addEventListener('change', (e) => { if (e.target.matches('select, input[type=checkbox]')) form.requestSubmit(); });
  }
}

// all checks or clears the boxes of a list.
function all() {
  for (const box of document.querySelectorAll('input[data-all]')) {
    box.addEventListener('change', () => {
      for (const one of document.querySelectorAll(`input[name="${CSS.escape(box.dataset.all)}"]`)) one.checked = box.checked;
    });
  }
}

// once disables the buttons of a form that is being sent.
function once() {
  document.addEventListener('submit', (e) => {
    leaving = !e.defaultPrevented;
    setTimeout(() => { for (const b of e.target.querySelectorAll('button')) b.disabled = true; }, 0);
  });
  addEventListener('pageshow', () => {
    leaving = false;
    for (const b of document.querySelectorAll('button:disabled')) b.disabled = false;
  });
}

// copies adds the function of the buttons that copy the text before them. A page that is not secure has no clipboard: there the text is
// selected.
function copies() {
  document.documentElement.dataset.copies = '';
  document.addEventListener('click', async (e) => {
    if (!e.target.matches('button.copy')) return;
    const text = e.target.previousElementSibling;
    getSelection().selectAllChildren(text);
    const copied = await navigator.clipboard?.writeText(text.textContent).then(() => true, () => false);
    e.target.textContent = copied || document.execCommand('copy') ? 'Copied' : 'Selected';
    setTimeout(() => { e.target.textContent = 'Copy'; }, 2000);
  });
}

live(); keys(); filters(); all(); once(); copies();
