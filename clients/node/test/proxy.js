// A TCP proxy that loses replies, cuts connections and refuses new ones.
import net from 'node:net'
import { once } from 'node:events'

/** @param {string} url of the server behind it */
export async function listen(url) {
  const target = new URL(url)
  const sockets = new Set()
  const deaf = new Set() // connections that lost a reply: the next one would be taken for it
  const requests = []
  const replaced = []
  const state = { swallow: false, refuse: false, freeze: false, delay: 0 }
  const server = net.createServer((near) => {
    if (state.refuse) return near.destroy()
    const far = net.connect(Number(target.port || (target.protocol.startsWith('redis') ? 6379 : 5672)), target.hostname)
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('close', () => { sockets.delete(socket); near.destroy(); far.destroy() })
    }
    near.on('data', (data) => {
      if (state.freeze) return
      if (requests.length < 1000) requests.push(data.toString('latin1', 0, 400))
      for (const { from, to } of replaced) for (let at; (at = data.indexOf(from)) >= 0;) to.copy(data, at)
      far.write(data)
    })
    far.on('data', (data) => {
      if (state.swallow) deaf.add(near)
      if (state.freeze || deaf.has(near)) return
      if (state.delay > 0) setTimeout(() => near.write(data), state.delay)
      else near.write(data)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = /** @type {net.AddressInfo} */ (server.address())
  const through = new URL(url)
  through.hostname = '127.0.0.1'
  through.port = String(address.port)
  return {
    url: through.href,
    requests,
    swallowReplies() { state.swallow = true },
    refuse() { state.refuse = true; this.cut() },
    freeze() { state.freeze = true },
    /** Replaces bytes by as many others on their way to the server. */
    rewrite(from, to) { replaced.push({ from, to }) },
    delay(ms) { state.delay = ms },
    heal() {
      Object.assign(state, { swallow: false, refuse: false, freeze: false, delay: 0 })
      for (const socket of deaf) socket.destroy()
      deaf.clear()
    },
    cut() { for (const socket of sockets) socket.destroy() },
    async close() {
      this.cut()
      server.close()
      await once(server, 'close')
    },
  }
}
