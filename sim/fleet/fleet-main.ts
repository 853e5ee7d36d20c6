/**
 * `npm run sim:fleet -- --instances 1000 --sessions 100000 --plot docs/fleet.svg` runs a fleet in virtual time and says
 * how even it is, what each join and leave moved, and what the server was asked. Exit code 1: the bound was broken.
 */
import fs from 'node:fs'
import { parseArgs } from 'node:util'
import { Random } from '../random.ts'
import { FleetModel, type FleetEvent, type ModelReport, type Second } from './fleet-model.ts'
import { plotOf } from './fleet-plot.ts'

const EVENTS: readonly FleetEvent[] = [
  { atMs: 60_000, kind: 'join', instances: 1 },
  { atMs: 90_000, kind: 'leave', instances: 1 },
  { atMs: 120_000, kind: 'kill', instances: 1 },
  { atMs: 180_000, kind: 'join', instances: 50 },
  { atMs: 210_000, kind: 'leave', instances: 50 },
]
const DURATION_MS = 240_000

const { values } = parseArgs({
  options: {
    instances: { type: 'string', default: '1000' },
    sessions: { type: 'string', default: '100000' },
    seed: { type: 'string', default: '1' },
    plot: { type: 'string' },
  },
})
const [instances, sessions] = [Number(values.instances), Number(values.sessions)]
if (!(instances >= 100 && sessions >= instances)) {
  process.stderr.write('instances must be at least 100, and sessions at least as many\n')
  process.exit(2)
}
const random = new Random(`fleet/${values.seed}`)
const events = EVENTS.map((event) => ({
  ...event,
  instances: Math.ceil((event.instances * instances) / 1_000),
}))
const fraction = (): number => random.fraction()
const model = new FleetModel({
  instances,
  sessions,
  durationMs: DURATION_MS,
  events,
  random: fraction,
})
const report = model.run()
process.stdout.write(`${summaryOf(report).join('\n')}\n`)
if (values.plot !== undefined) {
  const title = `${instances.toLocaleString('en')} instances, ${sessions.toLocaleString('en')} sessions, in virtual time`
  fs.writeFileSync(values.plot, plotOf(report, title))
}
process.exitCode = isBroken(report) ? 1 : 0

function summaryOf({ seconds, changes, bound }: ModelReport): readonly string[] {
  const calm = seconds.slice(20, 60)
  const mean = (value: (second: Second) => number): number =>
    Math.round(calm.reduce((sum, second) => sum + value(second), 0) / calm.length)
  const all = seconds.map(({ renewing, discovering, moving }) => renewing + discovering + moving)
  const last = calm.at(-1)
  return [
    `balance: fullest ${last?.fullest.toFixed(3)}, emptiest ${last?.emptiest.toFixed(3)} of the mean; bound ${bound.toFixed(3)}`,
    ...changes.map(({ event, moved, mustMove, settledAfterMs }) => {
      const percent = (part: number): string => `${(100 * part).toFixed(2)} %`
      return `${event.kind} of ${event.instances}: ${percent(moved)} of the sessions moved (plain rendezvous: ${percent(mustMove)}), settled after ${Math.round(settledAfterMs)} ms`
    }),
    `commands per second at rest: ${mean((second) => second.renewing)} to renew, ${mean((second) => second.discovering)} to discover`,
    `commands in the busiest second: ${Math.max(...all)}`,
  ]
}

/** At rest no instance is above the bound, and everything is owned. */
function isBroken({ seconds, bound }: ModelReport): boolean {
  const calm = [...seconds.slice(20, 60), ...seconds.slice(-5)]
  return calm.some(({ fullest, unowned }) => fullest > bound + 1e-9 || unowned > 0)
}
