/** Where the replies to a domain's processes go, by the name that this installation knows it by. */
export const replyQueue = (domain: string): string => `${domain}__process_replies`
