/** Loss of power: recorded writes are replayed up to every point, with any part of what was not synced yet. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { firstOddLease } from '../../src/cli/ledger-verdict.ts'
import { loadSqlite, type SqliteDriver } from '../../src/drivers/sqlite-driver.ts'
import { openApi } from '../../src/open.ts'
import { Random } from '../../sim/random.ts'
import { ROOT, type Part, type Step, type StepOrder, type StepOutcome } from '../part.ts'
import { Disk, type Luck } from './disk-image.ts'
import type { RecordedOrder } from './recorded-subject.ts'
import { record, type DiskAct } from './recording.ts'

const SUBJECT = path.join(ROOT, 'dist-dev', 'campaign', 'power', 'recorded-subject.js')
const WHOLE_MINUTES = 15
const IMAGES_PER_STEP = 25_000
const ROUNDS = 60
const LEDGER_CHECKED_EVERY = 250
const FAILURES_MAX = 10
const SAY_EVERY = 100

type Synchronous = RecordedOrder['synchronous']

function step(synchronous: Synchronous): Step {
  const control = synchronous === 'normal' ? ', control' : ''
  return {
    name: `synchronous=${synchronous}${control}`,
    minutes: WHOLE_MINUTES,
    run: (order) => run(synchronous, order),
  }
}

async function run(synchronous: Synchronous, order: StepOrder): Promise<StepOutcome> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-power-'))
  try {
    const acts = recordActs(directory, synchronous)
    const trial = new Trial(directory, await loadSqlite(), acts)
    const untilMs = performance.now() + order.minutes * 60_000
    await trial.run(new Random(`power/${order.seed}`), untilMs, order.say)
    const { images, lost, failures } = trial
    const isControl = synchronous === 'normal'
    return {
      counts: { images, [isControl ? 'losses (control)' : 'losses']: lost },
      failures: [
        ...failures,
        ...(!isControl && lost > 0 ? [`${lost} images lack what was acknowledged`] : []),
      ],
      shortfalls: isControl && lost === 0 ? ['the control lost nothing'] : [],
      note: `${acts.length} recorded acts`,
    }
  } finally {
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

function recordActs(directory: string, synchronous: Synchronous): readonly DiskAct[] {
  const file = path.join(directory, 'recorded.db')
  const acknowledged = path.join(directory, 'acknowledged')
  const order: RecordedOrder = { file, synchronous, acknowledged, rounds: ROUNDS }
  const command = [process.execPath, SUBJECT, JSON.stringify(order)]
  const trace = path.join(directory, 'trace')
  return record(command, { database: file, acknowledged, trace })
}

class Trial {
  images = 0
  /** Images that lack events which were acknowledged before the loss. */
  lost = 0
  readonly failures: string[] = []
  readonly #file: string
  readonly #Driver: SqliteDriver
  readonly #acts: readonly DiskAct[]

  constructor(directory: string, Driver: SqliteDriver, acts: readonly DiskAct[]) {
    this.#file = path.join(directory, 'image.db')
    this.#Driver = Driver
    this.#acts = acts
  }

  /** Round after round over all points, until there are enough images. */
  async run(random: Random, untilMs: number, say: (text: string) => void): Promise<void> {
    const isOver = (): boolean => {
      if (this.images >= IMAGES_PER_STEP || performance.now() > untilMs) return true
      return this.failures.length >= FAILURES_MAX
    }
    for (let round = 0; !isOver(); round += 1) {
      const disk = new Disk()
      let acknowledged = 0
      for (const [index, act] of this.#acts.entries()) {
        disk.take(act)
        if (act.kind === 'acknowledged') acknowledged = act.events
        // Before the first answer there is no store to lose anything.
        if (acknowledged === 0 || isOver()) continue
        const lucks: readonly Luck[] = round === 0 ? ['nothing', 'everything', 'some'] : ['some']
        for (const luck of disk.hasPending ? lucks : lucks.slice(0, 1)) {
          await this.#look(disk.image(luck, random), { acknowledged, at: `act ${index}, ${luck}` })
          if (this.images % SAY_EVERY === 0) say(`${this.images} images`)
        }
      }
    }
  }

  async #look(
    { database, log }: ReturnType<Disk['image']>,
    { acknowledged, at }: { readonly acknowledged: number; readonly at: string },
  ): Promise<void> {
    this.images += 1
    fs.rmSync(`${this.#file}-shm`, { force: true })
    fs.writeFileSync(this.#file, database)
    fs.writeFileSync(`${this.#file}-wal`, log)
    try {
      const store = new this.#Driver(this.#file)
      const verdict = String(store.pragma('quick_check', { simple: true }))
      const [events] = store.prepare('SELECT count(*) FROM lease_history').raw().get() as [number]
      store.close()
      if (verdict !== 'ok') this.failures.push(`${at}: quick_check says ${verdict}`)
      if (events < acknowledged) this.lost += 1
      if (this.images % LEDGER_CHECKED_EVERY === 0) await this.#compareLedger(at)
    } catch (error) {
      this.failures.push(`${at}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }

  async #compareLedger(at: string): Promise<void> {
    const api = await openApi(`sqlite:${this.#file}`)
    const odd = await firstOddLease(api)
    await api.close()
    if (odd !== null) this.failures.push(`${at}: lease ${odd} is not what the ledger tells of it`)
  }
}

export const power: Part = {
  name: 'power',
  about:
    'The writes and syncs of a process on SQLite, which acquires, renews and releases, are recorded by strace and replayed up to every point, with any part of what was not synced yet, in sectors of 512 bytes and in any order; entries of directories are taken to be durable. Half of the images are of each mode, and short recordings make some of them twice. ' +
    'Every image opens and passes `quick_check`; with `synchronous=full` nothing that was acknowledged is missing, and with `normal` some of it is, which shows that the trial can see it.',
  steps: [step('full'), step('normal')],
  atLeast: { images: 50_000, 'losses (control)': 1 },
}
