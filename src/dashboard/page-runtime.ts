/** The browser's clocks and timers, and whether the tab is looked at: the only place of the dashboard that touches them. */

/** Milliseconds since the page was opened; never goes back. */
export function monotonicMs(): number {
  return performance.now()
}

/** The browser's wall clock, until the first answer of the server carries the store's. */
export function wallMs(): number {
  return Date.now()
}

export type Stop = () => void

export function after(delayMs: number, run: () => void): Stop {
  const timer = setTimeout(run, delayMs)
  return () => clearTimeout(timer)
}

export function every(spanMs: number, run: () => void): Stop {
  const timer = setInterval(run, spanMs)
  return () => clearInterval(timer)
}

/** Resolves after `delayMs`, or at once when the signal is aborted. */
export function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const end = (): void => {
      stop()
      signal.removeEventListener('abort', end)
      resolve()
    }
    const stop = after(delayMs, end)
    signal.addEventListener('abort', end)
  })
}

export function isHidden(): boolean {
  return document.visibilityState === 'hidden'
}

/** Calls back whenever the tab is hidden or shown. */
export function onVisibility(run: () => void): Stop {
  document.addEventListener('visibilitychange', run)
  return () => document.removeEventListener('visibilitychange', run)
}

/** Resolves when the tab is shown, or the signal is aborted. */
export function shown(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (isHidden() && !signal.aborted) return
      stop()
      signal.removeEventListener('abort', look)
      resolve()
    }
    const stop = onVisibility(look)
    signal.addEventListener('abort', look)
    look()
  })
}
