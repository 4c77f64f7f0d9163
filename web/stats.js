// Keeps the page up to date: asks for it again, takes over what has changed, and counts times down. Without it the page
// reloads itself (noscript).
'use strict';
(() => {
  const every = 5000; // milliseconds between two updates
  const patience = 10000; // how long an answer may take
  const root = document.documentElement;
  const main = document.getElementById('main');
  const note = document.getElementById('note');
  let seen = Date.now(); // when the page was last up to date
  let skew = 0; // how far the server's clock is ahead of this one
  let asking = false;

  // take makes the old node like the fresh one and leaves alone what is alike: focus, scrolling and selections stay.
  function take(old, fresh) {
    for (const a of [...old.attributes]) if (!fresh.hasAttribute(a.name)) old.removeAttribute(a.name);
    for (const a of fresh.attributes) if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
    const was = [...old.childNodes];
    const now = [...fresh.childNodes];
    now.forEach((n, i) => {
      const o = was[i];
      if (!o) old.append(n);
      else if (o.nodeType !== n.nodeType || o.nodeName !== n.nodeName) o.replaceWith(n);
      else if (o.nodeType === Node.ELEMENT_NODE) take(o, n);
      else if (o.nodeValue !== n.nodeValue) o.nodeValue = n.nodeValue;
    });
    was.slice(now.length).forEach((o) => o.remove());
  }

  function setClock() {
    const now = Date.parse(main.dataset.now);
    if (!Number.isNaN(now)) skew = now - Date.now();
  }

  // remaining writes h:mm:ss, as the server does.
  function remaining(to) {
    const s = Math.max(0, Math.ceil((to - Date.now() - skew) / 1000));
    const two = (n) => String(n).padStart(2, '0');
    const text = `${Math.floor(s / 3600) % 24}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
    const days = Math.floor(s / 86400);
    return days > 0 ? `${days} ${main.dataset.day} ${text}` : text;
  }

  function count() {
    for (const e of main.querySelectorAll('.left[data-to]')) {
      const text = remaining(Date.parse(e.dataset.to));
      if (e.textContent !== text) e.textContent = text;
    }
  }

  function lost() {
    const text = note.dataset.lost.replace('{time}', new Date(seen).toLocaleTimeString(root.lang, { hour12: false }));
    if (note.textContent !== text) note.textContent = text; // said once, not with every attempt
    note.hidden = false;
  }

  async function update() {
    if (asking || document.visibilityState !== 'visible') return;
    asking = true;
    try {
      const answer = await fetch(location.href, { cache: 'no-store', redirect: 'error', signal: AbortSignal.timeout(patience) });
      if (answer.status === 401) return location.reload(); // the session has ended: there is the form
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const next = fresh.getElementById('main');
      if (!next) throw new Error('another page');
      if (fresh.documentElement.lang !== root.lang) return location.reload(); // chosen in another tab
      take(main, next);
      seen = Date.now();
      note.hidden = true;
      setClock();
      count();
    } catch {
      lost();
    } finally {
      asking = false;
    }
  }

  setClock();
  setInterval(count, 1000);
  setInterval(update, every);
  document.addEventListener('visibilitychange', update);
  window.addEventListener('pageshow', (e) => { if (e.persisted) update(); });
})();
