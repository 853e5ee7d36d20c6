/** The page's connection, for every part of it. */
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { LiveFeed } from './state/live-feed.ts'

const FeedContext = createContext<LiveFeed | null>(null)
export const FeedProvider = FeedContext.Provider

export function useFeed(): LiveFeed {
  const feed = useContext(FeedContext)
  if (feed === null) throw new TypeError('a part of the page must stand below its feed')
  return feed
}
