/**
 * One simulated world from its seed to its end: a store host, a handful of processes with the production service and
 * client in each, their work, and everything that goes wrong. Then, the faults being over, it lets all of them finish
 * and hands the evidence over.
 */
import { TenureClient } from '../src/client/tenure-client.ts'
import { isLeaseError } from '../src/core/errors.ts'
import type { SettingKey } from '../src/core/settings.ts'
import type { Runtime } from '../src/runtime/runtime.ts'
import type { LeaseApi } from '../src/service/lease-api.ts'
import { LeaseService } from '../src/service/lease-service.ts'
import type { Backend } from '../src/store/optimistic/backend.ts'
import { OptimisticStore } from '../src/store/optimistic/optimistic-store.ts'
import type { Store } from '../src/store-port/store.ts'
import { tapped } from './api-tap.ts'
import { Calls } from './calls.ts'
import { handleLogs } from './holder-views.ts'
import { parentsOf, type Evidence } from './evidence.ts'
import { FencedResources } from './fenced-resource.ts'
import { RATE_MAX, RATE_MIN } from './host-clock.ts'
import { leaseLives } from './lease-life.ts'
import { Log } from './log.ts'
import { Mailbox } from './mailbox.ts'
import type { NetworkOptions } from './network.ts'
import { NetworkBackend } from './network-backend.ts'
import { NetworkStore } from './network-store.ts'
import { OptimisticServer } from './optimistic-server.ts'
import { Random } from './random.ts'
import { SimProcess, type Incarnation } from './sim-process.ts'
import { StoreHost, WORLD_WALL_MS, type ConfiguredTtl, type StoreKind } from './store-host.ts'
import { FaultInjector } from './fault-injector.ts'
import { calmed, HANG_MS_MAX, faultProfileOf, type FaultProfile } from './fault-profile.ts'
import { habitsOf, type Habits } from './workload.ts'
import { Worker } from './worker.ts'
import { World } from './world.ts'

/**
 * Ways to put a defect into a world, for the tests that prove that it would be found. Each takes the real thing and
 * gives back what the processes get instead.
 */
export interface Defect {
  readonly store?: (store: Store, incarnation: Incarnation) => Store
  readonly api?: (api: LeaseApi, incarnation: Incarnation) => LeaseApi
  readonly runtime?: (runtime: Runtime, incarnation: Incarnation) => Runtime
  /** Of a server that compares and writes: one for all processes. */
  readonly server?: (backend: Backend) => Backend
}

export interface WorldOptions {
  readonly store?: StoreKind
  readonly defect?: Defect
}

/** Long enough for every call that was begun to come to its end, and then for every lease to run out. */
const EVENING_US = (4 * HANG_MS_MAX + 30_000) * 1000
const NIGHT_US = 4_500_000
const CLOSE_BOUND_MS = 40_000
const THREADS = 2
/** A wait that names no time must end within a day, and a sweep must happen now and then. */
const SETTINGS: readonly (readonly [SettingKey, string])[] = [
  ['acquisition_timeout_ms', '1500'],
  ['cleanup_interval_seconds', '1'],
]
/** A process that could not open its store tries again after this. */
const OPEN_AGAIN_MS = 200
const DEFAULT_TTL_SECONDS_MAX = 3

const PROCESS_NAMES = ['ada', 'bea', 'cyd', 'dot', 'eve']

export class Simulation {
  readonly log: Log
  readonly #world = new World()
  readonly #random: Random
  readonly #store: StoreKind
  readonly #host: StoreHost
  /** Null in a world where decisions are made where the store is. */
  readonly #server: OptimisticServer | null
  readonly #defect: Defect
  readonly #downstream: FencedResources
  readonly #calls = new Calls()
  readonly #mailbox = new Mailbox()
  readonly #processes: readonly SimProcess[]
  readonly #clients = new Map<Incarnation, TenureClient>()
  readonly #opening = new Set<Incarnation>()
  readonly #atWork = new Set<Worker>()
  readonly #configured: ConfiguredTtl[] = []
  readonly #closing = new Set<Incarnation>()
  readonly #habits: Habits
  readonly #claimWindowMs: number
  readonly #dayUs: number
  #faultProfile: FaultProfile
  #isOver = false

  constructor(seed: number, { store = 'memory', defect = {} }: WorldOptions = {}) {
    this.#store = store
    this.#defect = defect
    this.#random = new Random(`seed ${seed}`)
    this.log = new Log(this.#world)
    this.#host = new StoreHost(this.#world, store)
    const parts = { host: this.#host, defect: defect.server }
    this.#server = store === 'memory' ? null : new OptimisticServer(parts)
    this.#faultProfile = faultProfileOf(this.#random.fork('weather'))
    this.#downstream = new FencedResources(this.log, this.#random.fork('downstream'))
    const choices = this.#random.fork('choices')
    this.#claimWindowMs = choices.pick([200, 700, 2_000])
    this.#dayUs = choices.pick([1_500_000, 3_000_000, 6_000_000])
    this.#processes = this.#makeProcesses(choices)
    const holders = this.#processes.map((process) => process.holder)
    this.#habits = habitsOf(choices, holders, store)
  }

  get eventCount(): number {
    return this.#world.eventCount
  }

  get #settingsOwner(): Pick<Store, 'configure'> {
    return this.#server?.backend ?? this.#host.store
  }

  async run(): Promise<Evidence> {
    for (const [key, value] of SETTINGS) {
      await this.#settingsOwner.configure({ key, value, scope: 'global', resourceId: null })
    }
    const faultInjector = new FaultInjector({
      ...{ world: this.#world, log: this.log, host: this.#host, processes: this.#processes },
      store: this.#store,
      random: this.#random.fork('troubles'),
      startProcess: (process) => this.#startProcess(process),
    })
    for (const process of this.#processes) this.#startProcess(process)
    if (this.#habits.isConfiguring) this.#planSettings()
    faultInjector.plan(this.#dayUs)
    await this.#world.run(this.#dayUs)
    this.#isOver = true
    this.#faultProfile = calmed(this.#faultProfile)
    faultInjector.stop()
    await this.#runUntil(() => this.#atWork.size + this.#opening.size === 0, EVENING_US)
    await this.#world.run(this.#world.nowUs + NIGHT_US)
    for (const incarnation of this.#clients.keys()) this.#close(incarnation)
    await this.#runUntil(() => this.#closing.size === 0, CLOSE_BOUND_MS * 1100)
    return this.#evidence()
  }

  /** Lets time pass, a second at a time, until all is done; what does not end within the limit is left as it is. */
  async #runUntil(isDone: () => boolean, limitUs: number): Promise<void> {
    const untilUs = this.#world.nowUs + limitUs
    while (!isDone() && this.#world.nowUs < untilUs)
      await this.#world.run(this.#world.nowUs + 1_000_000)
  }

  #makeProcesses(random: Random): readonly SimProcess[] {
    const names = PROCESS_NAMES.slice(0, random.between(2, PROCESS_NAMES.length))
    const shareName = random.chance(0.3)
    return names.map((name) => {
      const surroundings = { world: this.#world, log: this.log, random: this.#random.fork(name) }
      return new SimProcess(surroundings, {
        name,
        holder: shareName ? 'agent' : `agent-${name}`,
        clock: {
          rate: RATE_MIN + random.fraction() * (RATE_MAX - RATE_MIN),
          hasBootClock: random.chance(0.85),
          wallMs: WORLD_WALL_MS + random.between(-600_000, 600_000),
          uptimeMs: random.between(1_000, 10_000_000),
        },
      })
    })
  }

  #startProcess(process: SimProcess): void {
    const incarnation = process.start()
    const { session } = incarnation
    const random = this.#random.fork(session)
    const isAlone = !random.fork('twin').chance(0.3)
    const twin = isAlone ? null : process.startTwin()
    const begin = (network: Store): void => {
      const { defect, runtime } = { defect: this.#defect, runtime: incarnation.runtime }
      const lied = defect.runtime?.(runtime, incarnation) ?? runtime
      const store = defect.store?.(network, incarnation) ?? network
      const sweep = random.fork('sweep').chance(0.3)
      const service = new LeaseService({ store, runtime: lied, sweep })
      this.#startClient(incarnation, service, { random, threads: THREADS })
      if (twin === null) return
      this.#startClient(twin, service, { random: random.fork('of the twin'), threads: 1 })
    }
    const way = {
      ...{ host: this.#host, incarnation, random: random.fork('network') },
      faultProfile: () => this.#faultProfile,
    }
    if (this.#server === null) begin(new NetworkStore(way))
    else void this.#open(this.#server, way).then(begin)
  }

  /** For as long as it takes: a process that cannot open its store is started again. */
  async #open(server: OptimisticServer, way: NetworkOptions): Promise<Store> {
    const { incarnation } = way
    const isQuick = this.#random.fork('server').fork('quick').chance(0.5)
    this.#opening.add(incarnation)
    incarnation.onDeath(() => this.#opening.delete(incarnation))
    for (;;) {
      const backend = new NetworkBackend({ ...way, server, isQuick })
      try {
        const store = await OptimisticStore.open(backend, incarnation.runtime)
        this.#opening.delete(incarnation)
        return this.#host.overhear(store)
      } catch (error) {
        if (!isLeaseError(error)) throw error
        await incarnation.sleep(OPEN_AGAIN_MS)
      }
    }
  }

  /** An operator changes now and then what a lease has that names no TTL. */
  #planSettings(): void {
    const random = this.#random.fork('operator')
    const times = Array.from({ length: random.between(2, 8) }, () => random.between(0, this.#dayUs))
    for (const atUs of [0, ...times]) {
      const seconds = random.between(1, DEFAULT_TTL_SECONDS_MAX)
      this.#world.schedule(atUs, () => void this.#configureTtl(seconds))
    }
  }

  async #configureTtl(seconds: number): Promise<void> {
    const value = String(seconds)
    const change = { key: 'default_ttl_seconds', value, scope: 'global', resourceId: null } as const
    this.#configured.push({ atUs: this.#world.nowUs, ttlMs: seconds * 1000 })
    await this.#settingsOwner.configure(change)
  }

  /** A client of its own; clients of one process share its service. */
  #startClient(
    incarnation: Incarnation,
    service: LeaseService,
    { random, threads }: { readonly random: Random; readonly threads: number },
  ): void {
    const { defect, runtime } = { defect: this.#defect, runtime: incarnation.runtime }
    const { process, session } = incarnation
    const lied = defect.runtime?.(runtime, incarnation) ?? runtime
    const api = tapped(defect.api?.(service, incarnation) ?? service, incarnation)
    const tenure = new TenureClient({
      ...{ api, runtime: lied, holder: process.holder, session },
      claimWindowMs: this.#claimWindowMs,
    })
    this.#clients.set(incarnation, tenure)
    for (let thread = 0; thread < threads; thread += 1) {
      const worker = new Worker({
        ...{ incarnation, tenure, calls: this.#calls, downstream: this.#downstream },
        ...{ habits: this.#habits, mailbox: this.#mailbox },
        random: random.fork(`thread ${thread}`),
        isFirst: process === this.#processes[0] && thread === 0,
        isOver: () => this.#isOver,
      })
      this.#atWork.add(worker)
      incarnation.onDeath(() => this.#atWork.delete(worker))
      void worker.run().then(() => this.#atWork.delete(worker))
    }
  }

  #close(incarnation: Incarnation): void {
    const tenure = this.#clients.get(incarnation)
    if (tenure === undefined || !incarnation.alive) return
    this.#closing.add(incarnation)
    incarnation.post(0, () => {
      const facts = { operation: 'close', boundMs: CLOSE_BOUND_MS } as const
      void this.#calls
        .make(incarnation, facts, () => tenure.close())
        .then(() => {
          this.#closing.delete(incarnation)
          this.log.write({ kind: 'closed', ...incarnation.who, timersLeft: incarnation.timerCount })
        })
    })
  }

  async #evidence(): Promise<Evidence> {
    const ledger = await this.#host.ledger()
    const log = this.log.entries
    const parents = parentsOf(log)
    const lives = leaseLives(ledger, parents, (tick) => this.#host.trueUs(tick))
    return {
      ...{ store: this.#store, log, ledger, lives, handles: handleLogs(log), parents },
      refusals: this.#host.refusals(),
      entries: await this.#host.entries(),
      heard: this.#host.heard,
      clockChanges: this.#host.clockChanges,
      configured: this.#configured,
      endUs: this.#world.nowUs,
      claimWindowMs: this.#claimWindowMs,
      trueUs: (tick) => this.#host.trueUs(tick),
    }
  }
}
