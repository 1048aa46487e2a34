// Keeps an open page up to date, and copies commands. Every page works without it.
const main = document.querySelector('main');
const notice = document.getElementById('connection');
const live = main.dataset.live;

function say(text, bad) {
  notice.hidden = !text;
  notice.classList.toggle('bad', Boolean(bad));
  if (notice.textContent !== text) notice.textContent = text;
}

// A link or a button is recognised in the next version of the page by its id, address or text.
const name = (e) => e.tagName + (e.id || e.getAttribute('href') || e.textContent);
const focusable = () => [...main.querySelectorAll('a, button, input, select, summary, [tabindex]')];

function busy() { // the visitor types, or selects something to copy
  const at = document.activeElement;
  const typing = at && main.contains(at) && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName);
  const selection = getSelection();
  const selected = main.querySelector('td input[type=checkbox]:checked'); // rows for an action on several
  return typing || selected || (selection && !selection.isCollapsed && main.contains(selection.anchorNode));
}

let shown = '';
function show(page, note) {
  say(page.trouble ? `This page is not up to date, and tries again: ${page.trouble}` : note, page.trouble);
  if (!page.html || page.html === shown || busy()) return;
  shown = page.html;
  document.title = page.title + ' – strikes';
  const at = document.activeElement;
  const was = at && at !== main && main.contains(at) ? name(at) : '';
  const scrolled = [...main.querySelectorAll('.scroll')].map((e) => e.scrollLeft);
  const open = new Set([...main.querySelectorAll('details[open] > summary')].map(name));
  main.innerHTML = page.html; // the server's own HTML, in which it escaped everything
  main.querySelectorAll('.scroll').forEach((e, i) => { e.scrollLeft = scrolled[i] || 0; });
  main.querySelectorAll('details > summary').forEach((e) => { if (open.has(name(e))) e.parentElement.open = true; });
  if (was) focusable().find((e) => name(e) === was)?.focus({ preventScroll: true });
  ready();
}

// follow uses a stream. If a proxy withholds it, or the browser lost it, the page polls.
let stream, timer;
const silence = 7000, pause = 4000;

function follow() {
  stop();
  stream = new EventSource(live);
  timer = setTimeout(poll, silence);
  stream.addEventListener('page', (e) => {
    clearTimeout(timer);
    timer = setTimeout(poll, silence * 3);
    show(JSON.parse(e.data), '');
  });
  stream.onerror = () => {
    say('The console does not answer. This page is not up to date; it tries again.', true);
    if (stream.readyState === EventSource.CLOSED) { clearTimeout(timer); timer = setTimeout(poll, pause); }
  };
}

async function poll() {
  stop();
  try {
    const reply = await fetch(live, { headers: { Accept: 'application/json' }, signal: AbortSignal.timeout(20000) });
    if (reply.status === 401 || reply.status === 403) {
      say('You are logged out, or no longer allowed. Reload the page.', true);
      return;
    }
    if (!reply.ok) throw new Error(reply.statusText);
    show(await reply.json(), 'This page updates every few seconds, because no stream reaches it.');
  } catch {
    say('The console does not answer. This page is not up to date; it tries again.', true);
  }
  if (!document.hidden && !stream) timer = setTimeout(poll, pause); // a page that was hidden meanwhile follows again
}

function stop() {
  clearTimeout(timer);
  stream?.close();
  stream = undefined;
}

function ready() {
  for (const button of main.querySelectorAll('[data-copy]')) button.hidden = !navigator.clipboard;
}

main.addEventListener('click', async (e) => {
  const button = e.target.closest('[data-copy]');
  if (!button) return;
  const text = button.parentElement.querySelector('code').textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'Select the command and copy it';
  }
});

ready();
if (live) {
  follow();
  // A browser opens few connections to one host, so a page in the background holds none.
  document.addEventListener('visibilitychange', () => (document.hidden ? stop() : follow()));
  addEventListener('pagehide', stop);
  addEventListener('pageshow', (e) => { if (e.persisted) follow(); });
}
