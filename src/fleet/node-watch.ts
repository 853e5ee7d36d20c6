/**
 * Keeps the view of the nodes: read at a fixed pace, and sooner when somebody says that it changed or when a heartbeat
 * is about to end. Reads that are asked for at the same time share one; a read that fails leaves the view as it was.
 */
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { backOffMs } from './answer-within.ts'
import type { FleetLayout, FleetNode, NodeView } from './fleet-layout.ts'

export interface NodeWatchParts {
  readonly layout: FleetLayout
  readonly runtime: Runtime
  readonly discoverMs: number
  /** After every read, whether or not anything changed. */
  readonly onRead: (view: NodeView) => void
}

/** All instances hear of a change at the same moment, and need not all ask at once. */
const HINT_DELAY_MS_MAX = 50
/** After reads that failed. */
const RETRY = { firstMs: 500, mostMs: 4_000 }
/** Right after a heartbeat should have ended. */
const EXPIRY_SLACK_MS = 5

export class NodeWatch {
  readonly #parts: NodeWatchParts
  #view: NodeView = { nodes: [], isSelfDraining: false }
  #candidates: readonly FleetNode[] = []
  #reading: Promise<NodeView> | null = null
  #timer: Timer | null = null
  #isHinted = false
  #isStopped = false
  readonly #fault: RepeatedFault

  constructor(parts: NodeWatchParts) {
    this.#parts = parts
    const clock = { monotonicMs: () => parts.runtime.monotonicMs() }
    this.#fault = new RepeatedFault('fleet/nodes', clock)
  }

  /** As last read. */
  get view(): NodeView {
    return this.#view
  }

  /** Those that may be given something. */
  get candidates(): readonly FleetNode[] {
    return this.#candidates
  }

  /** The first look. */
  async start(): Promise<void> {
    this.#isStopped = false
    await this.read()
  }

  /** Throws what the store throws. */
  read(): Promise<NodeView> {
    this.#reading ??= this.#read().finally(() => (this.#reading = null))
    return this.#reading
  }

  /** As `read`, for callers that go on with the view as it was. */
  async look(): Promise<void> {
    try {
      await this.read()
    } catch (error) {
      this.#fault.failed(error)
    }
  }

  /** Somebody says that there is something new. */
  hint(): void {
    if (this.#isHinted || this.#isStopped) return
    this.#isHinted = true
    this.#arm(this.#parts.runtime.random() * HINT_DELAY_MS_MAX)
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  async #read(): Promise<NodeView> {
    // What is known of heartbeats grows old while the store cannot be read, and does not tell when to look again.
    let nextMs = Math.min(this.#parts.discoverMs, backOffMs(this.#fault.count + 1, RETRY))
    try {
      const view = await this.#parts.layout.nodes()
      this.#fault.succeeded()
      this.#view = view
      this.#candidates = view.nodes.filter(({ isDraining }) => !isDraining)
      nextMs = this.#nextReadInMs()
      this.#parts.onRead(view)
      return view
    } finally {
      this.#isHinted = false
      this.#arm(nextMs)
    }
  }

  #nextReadInMs(): number {
    const firstMs = this.#view.nodes.reduce(
      (least, node) => Math.min(least, node.expiresInMs),
      Infinity,
    )
    return Math.min(this.#parts.discoverMs, firstMs + EXPIRY_SLACK_MS)
  }

  #arm(inMs: number): void {
    this.#timer?.cancel()
    if (this.#isStopped) return
    const onTime = (): void => void this.look()
    this.#timer = this.#parts.runtime.setTimer(inMs, onTime, { keepAlive: false })
  }
}
