/** The workers of a run: started, killed, stopped and replaced. They are children of this process and end with it. */
import { spawn, type ChildProcess } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../../sim/random.ts'
import { ROOT } from '../part.ts'
import { rateEnv } from './faketime.ts'
import { bootAheadUs } from './host-clock.ts'
import { TURNED_AWAY, type WorkerOrder } from './worker-order.ts'

const WORKER = path.join(ROOT, 'dist-dev', 'campaign', 'chaos', 'chaos-worker.js')
const LIBRARY = path.join(ROOT, 'dist-dev', 'src', 'index.js')
const STDERR_SHOWN = 300

export interface CrewOptions {
  /** Where there are several crews, of their own logs and holders; default `worker`. */
  readonly name?: string
  /** The library that is tried; default: that of this build. */
  readonly library?: string
  readonly directory: string
  readonly processes: number
  readonly order: Omit<WorkerOrder, 'log' | 'holder' | 'seed' | 'library' | 'store' | 'clock'>
  readonly seed: number
  readonly random: Random
  readonly env: Readonly<Record<string, string>>
  /** What a worker's command begins with; default: nothing. */
  readonly wrapper?: readonly string[]
  /** The rate of the clocks of every other worker; those of the others are true. */
  readonly clockRate?: number
  /** Each of two addresses of one store is used by every other worker; the first alone where there is no second. */
  readonly stores: readonly string[]
}

export interface Worker {
  readonly log: string
  readonly process: ChildProcess
  readonly pid: number
  /** A trouble kills it, or may. */
  isDoomed: boolean
}

export class Crew {
  readonly #options: CrewOptions
  readonly #workers: Worker[] = []
  readonly #running = new Set<Worker>()
  /** How many workers ended because the store is of a layout that their version does not use. */
  turnedAway = 0
  /** Workers that ended in another way than by finishing or by our doing. */
  readonly crashes: string[] = []
  #isFinishing = false

  constructor(options: CrewOptions) {
    this.#options = options
    for (let index = 0; index < options.processes; index += 1) this.#start()
  }

  get logs(): readonly string[] {
    return this.#workers.map(({ log }) => log).filter((log) => fs.existsSync(log))
  }

  /** The logs of those that work now. */
  get runningLogs(): ReadonlySet<string> {
    return new Set([...this.#running].map(({ log }) => log))
  }

  get bytes(): number {
    return this.logs.reduce((sum, log) => sum + fs.statSync(log).size, 0)
  }

  anyone(): Worker {
    return this.#options.random.pick([...this.#running].filter(({ isDoomed }) => !isDoomed))
  }

  /** Not one that is being started: Node itself ends without what it takes to load a program. */
  anyoneAtWork(): Worker {
    const isAtWork = ({ isDoomed, log }: Worker): boolean => !isDoomed && sizeOf(log) > 0
    return this.#options.random.pick([...this.#running].filter(isAtWork))
  }

  /** SIGKILL; another takes its place. */
  kill(worker: Worker = this.anyone()): void {
    worker.isDoomed = true
    worker.process.kill('SIGKILL')
  }

  /** SIGSTOP: nothing in it runs, not even timers. */
  async stop(ms: number, worker: Worker = this.anyone()): Promise<void> {
    worker.process.kill('SIGSTOP')
    await sleep(ms)
    worker.process.kill('SIGCONT')
  }

  /** Until every worker has logged something: trouble that comes before the workers work is none. */
  async untilAllWork(withinMs: number): Promise<void> {
    const untilMs = performance.now() + withinMs
    const isIdle = ({ log }: Worker): boolean => !fs.existsSync(log) || fs.statSync(log).size === 0
    while ([...this.#running].some(isIdle) && this.crashes.length === 0) {
      if (performance.now() > untilMs) throw new Error('the workers did not begin')
      await sleep(50)
    }
  }

  /** Until each of those that run has begun to hold something from now on, but no longer than so. */
  async untilAllHoldAgain(withinMs: number): Promise<void> {
    const sizes = new Map([...this.#running].map(({ log }) => [log, sizeOf(log)]))
    const isIdle = ({ log }: Worker): boolean => !tellsOfHold(log, sizes.get(log) ?? 0)
    const untilMs = performance.now() + withinMs
    while ([...this.#running].some(isIdle) && performance.now() < untilMs) await sleep(100)
  }

  /** Lets every worker finish what it does. One that does not is killed and counts as a crash. */
  async finish(withinMs: number): Promise<void> {
    this.#isFinishing = true
    for (const worker of this.#running) worker.process.stdin?.end()
    const untilMs = performance.now() + withinMs
    while (this.#running.size > 0 && performance.now() < untilMs) await sleep(20)
    for (const worker of this.#running)
      this.crashes.push(`${path.basename(worker.log)} does not end`)
    this.killAll()
  }

  killAll(): void {
    this.#isFinishing = true
    for (const worker of this.#running) {
      worker.isDoomed = true
      worker.process.kill('SIGKILL')
    }
  }

  #start(): void {
    const {
      directory,
      order,
      seed,
      env,
      stores,
      name = 'worker',
      library = LIBRARY,
      wrapper = [],
      clockRate,
    } = this.#options
    const index = this.#workers.length
    const log = path.join(directory, `${name}-${index}.log`)
    // Two workers share each holder name: a name is not an identity.
    const holder = `${name}-${Math.floor(index / 2)}`
    const store = stores[index % stores.length] ?? ''
    const rate = clockRate === undefined || index % 2 === 1 ? null : clockRate
    const own: WorkerOrder = {
      ...{ ...order, store, log, holder, library },
      seed: `chaos/${seed}/${name}/${index}`,
      ...(rate === null ? {} : { clock: { rate, bootAheadUs: bootAheadUs() } }),
    }
    const command = [...wrapper, process.execPath, WORKER, JSON.stringify(own)]
    const [program = '', ...args] = command
    const child = spawn(program, args, {
      stdio: ['pipe', 'ignore', 'pipe'],
      env: { ...process.env, ...env, ...(rate === null ? {} : rateEnv(rate)) },
    })
    child.stdin.on('error', () => {})
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    const worker: Worker = { log, process: child, pid: child.pid ?? -1, isDoomed: false }
    this.#workers.push(worker)
    this.#running.add(worker)
    child.once('exit', (code, signal) => {
      this.#running.delete(worker)
      const said = stderr.trim().slice(-STDERR_SHOWN)
      if (code === TURNED_AWAY) return void (this.turnedAway += 1)
      if (!worker.isDoomed && code !== 0) this.crashes.push(`${code ?? signal}: ${said}`)
      if (!this.#isFinishing && this.crashes.length === 0) this.#start()
    })
  }
}

function sizeOf(log: string): number {
  return fs.existsSync(log) ? fs.statSync(log).size : 0
}

/** Whether a log has the beginning of a hold in what was written to it since it had this size. */
function tellsOfHold(log: string, fromBytes: number): boolean {
  const added = Buffer.alloc(sizeOf(log) - fromBytes)
  if (added.length === 0) return false
  const file = fs.openSync(log, 'r')
  fs.readSync(file, added, 0, added.length, fromBytes)
  fs.closeSync(file)
  return added.includes('["start"')
}
