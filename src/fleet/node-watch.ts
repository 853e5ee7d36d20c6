/**
 * The view of the nodes: read at a fixed interval, and earlier after a notification or when a heartbeat is about to
 * expire. Concurrent callers share one read; a read that fails leaves the view as it was.
 */
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { backOffMs } from '../runtime/pause.ts'
import type { Timer } from '../runtime/runtime.ts'
import type { FleetInstance } from './fleet-instance.ts'
import type { FleetNode, NodeView } from './fleet-layout.ts'

/** All instances are notified of a change at the same moment; a random delay spreads their reads. */
const NOTIFY_DELAY_MS_MAX = 50
/** The back-off after reads that failed. */
const RETRY = { firstMs: 500, maxMs: 4_000 }
/** A read comes so long after a heartbeat should have expired. */
const EXPIRY_SLACK_MS = 5

export class NodeWatch {
  readonly #instance: FleetInstance
  readonly #onRead: () => void
  #view: NodeView = { nodes: [], isSelfDraining: false }
  #candidates: readonly FleetNode[] = []
  #reading: Promise<NodeView> | null = null
  #timer: Timer | null = null
  #isNotified = false
  #isStopped = false
  readonly #fault: RepeatedFault

  /** `onRead` is called after every read, whether or not anything changed. */
  constructor(instance: FleetInstance, onRead: () => void) {
    this.#instance = instance
    this.#onRead = onRead
    const clock = { monotonicMs: () => instance.runtime.monotonicMs() }
    this.#fault = new RepeatedFault('fleet/nodes', clock)
  }

  /** As last read. */
  get view(): NodeView {
    return this.#view
  }

  /** The nodes that may receive sessions. */
  get candidates(): readonly FleetNode[] {
    return this.#candidates
  }

  async start(): Promise<void> {
    this.#isStopped = false
    await this.read()
  }

  /** Throws what the store throws. */
  read(): Promise<NodeView> {
    this.#reading ??= this.#read().finally(() => (this.#reading = null))
    return this.#reading
  }

  /** As `read`, but keeps the old view when the store cannot be read. */
  async refresh(): Promise<void> {
    try {
      await this.read()
    } catch (error) {
      this.#fault.failed(error)
    }
  }

  /** The layout was notified of a change. */
  notify(): void {
    if (this.#isNotified || this.#isStopped) return
    this.#isNotified = true
    this.#schedule(this.#instance.runtime.random() * NOTIFY_DELAY_MS_MAX)
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  async #read(): Promise<NodeView> {
    // While the store cannot be read, the known heartbeats are outdated and do not say when to read again.
    let nextMs = Math.min(
      this.#instance.settings.discoverMs,
      backOffMs(this.#fault.count + 1, RETRY),
    )
    try {
      const view = await this.#instance.layout.nodes()
      this.#fault.succeeded()
      this.#view = view
      this.#candidates = view.nodes.filter(({ isDraining }) => !isDraining)
      nextMs = this.#nextReadInMs()
      this.#onRead()
      return view
    } finally {
      this.#isNotified = false
      this.#schedule(nextMs)
    }
  }

  #nextReadInMs(): number {
    const firstMs = this.#view.nodes.reduce(
      (least, node) => Math.min(least, node.expiresInMs),
      Infinity,
    )
    return Math.min(this.#instance.settings.discoverMs, firstMs + EXPIRY_SLACK_MS)
  }

  #schedule(inMs: number): void {
    this.#timer?.cancel()
    if (this.#isStopped) return
    const onTimer = (): void => void this.refresh()
    this.#timer = this.#instance.runtime.setTimer(inMs, onTimer, { keepAlive: false })
  }
}
