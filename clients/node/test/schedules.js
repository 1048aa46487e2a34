// Compares this client with schedules that Go has played: make client-schedules.
// Each line of the file is a case of conduct.json.
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { World } from './world.js'

const MOST_SHOWN = 5

let compared = 0
let differ = 0
for await (const line of createInterface({ input: createReadStream(process.argv[2]) })) {
  const c = JSON.parse(line)
  compared++
  try {
    // Of two events at the same instant, either may come first.
    await new World(c).run().catch((err) => {
      if (!c.settings?.breaker) throw err
      return new World(c, true).run()
    })
  } catch (err) { // a client that fails differs too
    if (++differ <= MOST_SHOWN) console.error(`${c.name}: ${err}\n${line}\n`)
  }
}
console.log(`clients/node: ${compared} schedules compared, ${differ} differ`)
process.exitCode = differ || !compared ? 1 : 0
