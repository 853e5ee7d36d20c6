/**
 * The road between orchestrators and processors. Delivery is at least once and, from one orchestrator, in order: what
 * failed is delivered again before anything that follows it in its workflow. A guard at the processor makes it at most
 * once.
 */
import { invalid } from '../core/errors.ts'
import type { Action, IncomingAction } from './action.ts'
import type { Revocation } from './wire/action-json.ts'

/** How an action comes. */
export interface Delivery {
  /** It was a dead letter, and an operator has sent it again. */
  readonly resent: boolean
}

export interface Listener {
  /**
   * Resolves when the action needs no further delivery. What it throws means: again, later. Too often, and the action
   * becomes a dead letter; but the `STORE_` errors that say that a store is away are no failures of the action, and it
   * waits for as long as they last.
   */
  onAction(action: IncomingAction, delivery?: Delivery): unknown
  onRevoked?(revocation: Revocation): unknown
}

export interface Subscription {
  /** No call begins after it has resolved; what was under way has ended, but for the call that closes it itself. */
  close(): Promise<void>
}

/** A message that could not be read, or that failed too often. */
export interface DeadLetter {
  /** To send it again by. */
  readonly id: string
  readonly target: string
  readonly reason: string
  readonly message: string
}

/** Refuses what cannot be told of an action. */
export function requireListener(listener: Listener): Listener {
  if (typeof listener?.onAction === 'function') return listener
  throw invalid('listener', 'must have onAction', listener)
}

export interface Bus {
  /** In this order; an action to `*` goes to every target. When it throws, nobody knows which of them have arrived. */
  publish(actions: readonly Action[]): Promise<void>
  /** Tells every target, by one of its listeners. */
  announce(revocation: Revocation): Promise<void>
  /** Actions for `target` and those for everybody, each to one of the listeners that share a target, in order. */
  subscribe(target: string, listener: Listener): Promise<Subscription>
}
