/** How those written by hand wait before they ask again. */
import { setTimeout as sleep } from 'node:timers/promises'

/** Up to twice as long, by chance: whoever asks in step with all others finds it taken by one of them each time. */
export function pauseAbout(pauseMs: number): Promise<void> {
  return sleep(pauseMs * (1 + Math.random()))
}

export function pauseText(pauseMs: number): string {
  return `asks again every ${pauseMs}–${2 * pauseMs} ms`
}
