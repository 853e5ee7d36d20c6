/** What is left of a lease: a bar that moves by the store's clock, and the same in words. */
import type { JSX } from 'preact'
import type { LeaseInfo } from '../../core/lease.ts'
import { useFeed } from '../state/live-feed.ts'
import { isExpiring, sinceMs } from '../state/lease-rows.ts'
import { momentText, roundSpanText, spanText } from './words.ts'

interface Props {
  readonly lease: LeaseInfo
}

export function TimeLeft({ lease }: Props): JSX.Element {
  const nowMs = useFeed().nowMs.value
  const { expiresAtMs, ttlMs } = lease
  if (expiresAtMs === null) return <span class="left none">in the queue</span>
  const leftMs = Math.max(0, expiresAtMs - nowMs)
  const isLow = isExpiring(lease, nowMs)
  return (
    <span class={isLow ? 'left low' : 'left'} title={`until ${momentText(expiresAtMs)}`}>
      <span class="track">
        <span class="run" style={{ transform: `scaleX(${Math.min(1, leftMs / ttlMs)})` }} />
      </span>
      <span class="figure">{leftMs === 0 ? 'over' : spanText(leftMs)}</span>
    </span>
  )
}

export function Since({ lease }: Props): JSX.Element {
  const nowMs = useFeed().nowMs.value
  const fromMs = sinceMs(lease)
  return <span title={`since ${momentText(fromMs)}`}>{roundSpanText(nowMs - fromMs)}</span>
}
